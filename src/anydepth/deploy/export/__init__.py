"""Frozen models as files that other programs run: torch.export and ONNX, compared with the model they come from."""
