"""Custom Streamlit components: a typed Python call beside the script and styles it runs."""
