declare const Plotly: any;
