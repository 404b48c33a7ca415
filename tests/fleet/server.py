"""ClickHouse servers on loopback, in a directory of their own: Debian 12's 18.16, as
scripts/fleet-setup fetches it."""
import ctypes
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

from support.tap import *

os.environ["no_proxy"] = "127.0.0.1"
PROGRAM = next((p for p in (os.environ.get("SPEX_CLICKHOUSE", ""),
                            f"{BUILD.removesuffix('-asan')}/fleet/root/usr/sbin/clickhouse-server",
                            shutil.which("clickhouse-server") or "/usr/sbin/clickhouse-server")
                if p and os.path.exists(p)), None)


def why_not():
    """Why there is no server here; None if there is."""
    if not PROGRAM:
        return "no clickhouse-server: scripts/fleet-setup fetches it"
    if b"not found" in subprocess.run(["ldd", PROGRAM], capture_output=True).stdout:
        return "clickhouse-server lacks libraries: scripts/setup fleet installs them"
    return None


class Server:
    """One server; peers: (tcp port) of all servers of cluster `fleet`."""

    def __init__(self, directory, http, tcp, peers=(), extra=""):
        self.directory, self.http, self.tcp = directory, http, tcp
        self.url = f"http://127.0.0.1:{http}"
        self.process = None
        os.makedirs(f"{directory}/tmp", exist_ok=True)
        shards = "".join("<shard><internal_replication>true</internal_replication><replica><host>"
                         f"127.0.0.1</host><port>{p}</port>"
                         "</replica></shard>" for p in peers)
        with open(f"{directory}/config.xml", "w") as f:
            f.write(f"""<yandex>
<logger><level>warning</level><log>{directory}/log</log><errorlog>{directory}/errors</errorlog>
</logger>
<http_port>{http}</http_port><tcp_port>{tcp}</tcp_port><listen_host>127.0.0.1</listen_host>
<path>{directory}/data/</path><tmp_path>{directory}/tmp/</tmp_path>
<user_files_path>{directory}/files/</user_files_path>
<format_schema_path>{directory}/schemas/</format_schema_path>
<users_config>{directory}/users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<timezone>UTC</timezone>
<mark_cache_size>268435456</mark_cache_size><mlock_executable>false</mlock_executable>
<remote_servers><fleet>{shards}</fleet></remote_servers>{extra}</yandex>""")
        with open(f"{directory}/users.xml", "w") as f:
            f.write("""<yandex>
<profiles><default>
<max_memory_usage>4000000000</max_memory_usage><max_threads>2</max_threads>
<connect_timeout_with_failover_ms>30000</connect_timeout_with_failover_ms>
<load_balancing>random</load_balancing>
</default></profiles>
<users>
<default><password></password><networks><ip>127.0.0.1</ip></networks>
<profile>default</profile><quota>default</quota></default>
<shipper><password>s3 cret'</password><networks><ip>127.0.0.1</ip></networks>
<profile>default</profile><quota>default</quota></shipper>
</users><quotas><default/></quotas></yandex>""")

    def start(self):
        self.process = subprocess.Popen([PROGRAM, f"--config-file={self.directory}/config.xml"],
                                        cwd=self.directory, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        preexec_fn=_die_with_parent, restore_signals=False)
        while True:
            try:
                urllib.request.urlopen(self.url + "/ping", timeout=60).read()
                return self
            except OSError:
                if self.process.poll() is not None:
                    raise RuntimeError("clickhouse-server ended: " +
                                       open(f"{self.directory}/log").read()[-2000:])
                time.sleep(0.1)

    def kill(self, how=signal.SIGKILL):
        if self.process:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None

    def ask(self, query, settings="", database="default"):
        """Rows of the answer, each a list of texts."""
        url = f"{self.url}/?database={database}{settings}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, query.encode()),
                                        timeout=120) as r:
                return [l.split("\t") for l in r.read().decode().splitlines()]
        except urllib.error.HTTPError as e:
            raise RuntimeError(e.read().decode()[:600] + "\n" + query[:300]) from None

    def run(self, statements):
        """The statements of --print-ddl, one after the other, as clickhouse-client -n does."""
        for s in statements.split(";\n"):
            lines = [l for l in s.splitlines() if l.strip() and not l.startswith("--")]
            if lines:
                self.ask("\n".join(lines))


    def disk(self, full):
        """A disk that takes no more: no file may grow beyond some bytes."""
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE,
                         (20000 if full else resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _die_with_parent():
    """No server outlives a test that was killed; a file that may not grow is
    an error, not a signal."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


class Fleet:
    """Some servers as the shards of a cluster, removed at the end."""

    def __init__(self, count=1):
        self.work = tempfile.TemporaryDirectory(prefix="spex-fleet-")
        numbers = free_ports(2 * count + 1)
        tcp = numbers[count:2 * count]
        self.servers = [Server(f"{self.work.name}/server{i}", numbers[i], tcp[i], tcp,
                               "" if i else self.tls(numbers[-1])) for i in range(count)]
        for s in self.servers:
            s.start()

    def tls(self, port):
        """The first server speaks TLS, too, where openssl makes a
        certificate: self.https, self.ca."""
        self.ca, key = f"{self.work.name}/ca.pem", f"{self.work.name}/key.pem"
        self.https = None
        if not shutil.which("openssl") or run("openssl", "req", "-x509", "-newkey", "rsa:2048",
                                              "-nodes", "-days", "2", "-subj", "/CN=localhost",
                                              "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                                              key, "-out", self.ca)[0]:
            return ""
        self.https = f"https://127.0.0.1:{port}"
        return (f"<https_port>{port}</https_port><openSSL><server><certificateFile>"
                f"{self.ca}</certificateFile><privateKeyFile>{key}</privateKeyFile>"
                "<verificationMode>none</verificationMode><cacheSessions>true</cacheSessions>"
                "<disableProtocols>sslv2,sslv3</disableProtocols>"
                "<preferServerCiphers>true</preferServerCiphers></server></openSSL>")

    def __getitem__(self, index):
        return self.servers[index]

    def close(self):
        for s in self.servers:
            s.kill()
        self.work.cleanup()
