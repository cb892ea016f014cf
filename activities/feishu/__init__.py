"""The way to Feishu: requests, the token, pacing, and what its errors mean."""
