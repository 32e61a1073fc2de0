import { render } from "preact";
import "./style/base.css";
import "./style/top.css";
import "./style/parts.css";
import { App } from "./app";
import { watchClock } from "./live";
import { watchVerdict } from "./parts/verdict";
import { watchRoute } from "./route";
import { resume } from "./session";
import { watchTheme } from "./theme";

watchTheme();
watchRoute();
watchVerdict();
watchClock();
const page = document.getElementById("page");
if (page) render(<App />, page);
void resume();
