// The data of the page.

export const data = JSON.parse(document.getElementById("data").textContent);
data.sections = new Map(data.sections);
