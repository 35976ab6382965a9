/**
 * Can previews disturb others, and do they leave memory behind? A real API server, kas and agentk as in production.
 *
 * Others: phases without previews, and with twelve callers who preview without a pause: a small change, a wide one, YAML
 * that takes long to read, a tar without end. Options: `--turns N` of `--seconds N` each; `--others`: this part alone.
 *
 * Memory: before and after `--previews N` of a small change, and as many of the wide one; `--memory`: this part alone.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { missingAssets } from '../dev/control-plane/assets.ts'
import { sourcePrograms } from '../dev/start/local-programs.ts'
import { type Ground, type GroundOptions, startGround } from './gitops/ground.ts'
import { type Kind, kinds } from './preview/layout.ts'
import { PreviewGround } from './preview/preview-ground.ts'
import { askProgram } from './support/ask-program.ts'
import { addTo, type Row, report } from './support/figures.ts'
import { readOptions, refuse } from './support/options.ts'
import { percentile } from './support/percentile.ts'
import { Programs } from './support/programs.ts'

const options = readOptions({ turns: 3, seconds: 20, previews: 50, settle: 60 }, ['memory', 'others'])
const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
if (missing.length > 0) refuse(`preview needs ${missing.join(', ')} in KUBEBUILDER_ASSETS`)

const probe = `--import=${join(import.meta.dirname, 'drift/memory-probe.mjs')}`
/** Limit of the first sync. ms */
const syncTimeoutMs = 300_000
const mebibyte = 2 ** 20
const columns = ['idle', ...kinds] as const
const rows: Record<(typeof columns)[number], Row> = { idle: {}, change: {}, wide: {}, yaml: {}, tar: {} }
const folder = mkdtempSync(join(tmpdir(), 'bench-preview-'))
try {
  if (!options.memory) await withGround({}, others)
  if (!options.others) await withGround({ agentkFlags: ['--expose-gc', probe] }, memory)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
report('preview', rows)

async function withGround(
  more: Partial<GroundOptions>,
  work: (side: PreviewGround, ground: Ground) => Promise<void>,
): Promise<void> {
  const place = mkdtempSync(join(folder, 'ground-'))
  const programs = new Programs()
  const stops: (() => Promise<unknown>)[] = []
  try {
    const given = { assets, folder: place, run: sourcePrograms, ...more }
    const ground = await startGround(programs, given, (stop) => stops.push(stop))
    const side = new PreviewGround(ground, options.seconds)
    stops.push(async () => side.stop())
    await side.start(programs, AbortSignal.timeout(syncTimeoutMs))
    await work(side, ground)
  } finally {
    for (const stop of stops.toReversed()) await stop()
    programs.stop()
  }
}

async function others(side: PreviewGround): Promise<void> {
  for (let turn = 0; turn < options.turns; turn++) {
    for (const column of turn % 2 === 0 ? columns : columns.toReversed()) {
      const figures = await side.phase(column)
      addTo(rows[column], figures)
      process.stderr.write(`turn ${turn + 1}, ${column}: ${JSON.stringify(figures)}\n`)
    }
  }
}

/** Measures after the first previews of a kind, by which its code is compiled, and after the others. */
async function memory(side: PreviewGround, ground: Ground): Promise<void> {
  for (const kind of ['change', 'wide'] as const satisfies readonly Kind[]) {
    const ask = (previews: number) => side.preview({ kind, width: 2, seconds: 0, previews })
    await ask(Math.ceil(options.previews / 5))
    const before = await measured(ground)
    const { ms, statuses } = await ask(options.previews)
    const after = await measured(ground)
    process.stderr.write(`${kind}: ${JSON.stringify({ before, after, statuses })}\n`)
    addTo(rows[kind], {
      'preview, two at once: p50, ms': percentile(ms, 0.5),
      [`agentk, heap after ${options.previews} previews, MiB more`]: after.heap - before.heap,
      [`agentk, RSS after ${options.previews} previews, MiB more`]: after.rss - before.rss,
      [`kas, RSS after ${options.previews} previews, MiB more`]: after.kas - before.kas,
    })
  }
}

/** Memory once both have rested; agentk's after a collection. MiB */
async function measured({ agentk, kasPid }: Ground): Promise<{ heap: number; rss: number; kas: number }> {
  await sleep(options.settle * 1000)
  const { heap, rss } = await askProgram<{ heap: number; rss: number }>(agentk, {})
  const pages = Number(readFileSync(`/proc/${kasPid}/statm`, 'utf8').split(' ')[1])
  const pageBytes = 4096
  return { heap: heap / mebibyte, rss: rss / mebibyte, kas: (pages * pageBytes) / mebibyte }
}
