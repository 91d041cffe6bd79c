// @ts-check
/**
 * Builds `static/generation/` from these sources; `--check` compares instead and fails when the committed files differ.
 *
 * The same sources give the same bytes everywhere: no dates, no paths, pinned esbuild.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const FRONTEND = dirname(fileURLToPath(import.meta.url));
const ROOT = dirname(FRONTEND);
/** Each becomes `static/generation/<out>` with the ending of its source. */
const ENTRIES = [
  { in: "frontend/chat.js", out: "chat" },
  { in: "frontend/styles/chat.css", out: "chat" },
  { in: "frontend/live-page/live-page.js", out: "live-page" },
  { in: "frontend/stream-page/stream-page.js", out: "stream-page" },
  { in: "frontend/stream-page/stream-page.css", out: "stream-page" },
];
/** Libraries, and the script that each is bundled into. @type {Record<string, string>} */
const BUNDLED = { "eventsource-parser": "chat.js", uplot: "stream-page.js" };

/**
 * Build in memory; keys are paths relative to the repository.
 * @returns {Promise<Map<string, string>>}
 */
export async function buildFiles() {
  const { outputFiles } = await build({
    absWorkingDir: ROOT,
    entryPoints: ENTRIES,
    outdir: "static/generation",
    bundle: true,
    format: "esm",
    target: ["chrome111", "firefox115", "safari16.4"],
    charset: "utf8",
    minify: true,
    legalComments: "none",
    logLevel: "warning",
    write: false,
  });
  /** @type {Map<string, string>} */
  const files = new Map();
  for (const { path, text } of outputFiles) files.set(relative(ROOT, path), text);
  files.set("static/generation/LICENSES.txt", await licences());
  return files;
}

/** @returns {Promise<string>} */
async function licences() {
  const texts = Object.entries(BUNDLED).map(async ([name, script]) => {
    const folder = join(ROOT, "node_modules", name);
    const { version } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    const licence = await readFile(join(folder, "LICENSE"), "utf8");
    return `${name} ${version}, bundled into ${script}\n\n${licence.trim()}\n`;
  });
  return (await Promise.all(texts)).join("\n");
}

/**
 * Name the committed files that a fresh build would change.
 * @returns {Promise<string[]>}
 */
export async function staleFiles() {
  const stale = [];
  for (const [path, text] of await buildFiles()) {
    const committed = await readFile(join(ROOT, path), "utf8").catch(() => null);
    if (committed !== text) stale.push(path);
  }
  return stale;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  if (process.argv.includes("--check")) {
    const stale = await staleFiles();
    if (stale.length) {
      console.error(`Not built from the present sources: ${stale.join(", ")}. Run "npm run build".`);
      process.exitCode = 1;
    }
  } else {
    for (const [path, text] of await buildFiles()) {
      await mkdir(dirname(join(ROOT, path)), { recursive: true });
      await writeFile(join(ROOT, path), text);
      console.log(`${path}  ${text.length} characters`);
    }
  }
}
