"""pdlab: an executable course workbook on prefill/decode disaggregation in LLM serving."""

__version__ = "0.1.0"
