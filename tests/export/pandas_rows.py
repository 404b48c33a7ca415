"""What pandas reads of a Parquet file: a line of JSON for each row, 64-bit numbers as text."""
import json, sys
import pandas

frame = pandas.read_parquet(sys.argv[1])
wide = {n for n in frame.columns if str(frame[n].dtype).lower() == "uint64"}
columns = {n: frame[n].astype(object).where(frame[n].notna(), None).tolist() for n in frame.columns}
for i in range(len(frame)):
    print(json.dumps({n: str(v[i]) if n in wide and v[i] is not None else v[i]
                      for n, v in columns.items()}))
