/**
 * What does it cost agentk to follow drift, and can a tenant who writes without a pause disturb others? A real API
 * server, kas and agentk as in production.
 *
 * Memory: with `mode: correct` and `mode: none` by turns, for one source and for several with as many objects together.
 * Options: `--objects N`, `--sources N`, `--rounds N`, `--settle N` seconds before memory is read; `--memory`: this part
 * alone.
 *
 * Tenant: phases without writes, with writes of objects that no source has, and with writes of a source's objects.
 * Options: `--turns N` of `--seconds N` each, `--writes N` a second; `--tenant`: this part alone.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { missingAssets } from '../dev/control-plane/assets.ts'
import { sourcePrograms } from '../dev/start/local-programs.ts'
import { inventoryLabel } from '../src/agentk/modules/gitops/manifests/annotations.ts'
import { Layout, type Mode } from './drift/layout.ts'
import { TenantGround } from './drift/tenant-ground.ts'
import { agentkUser, type Ground, type GroundOptions, startGround } from './gitops/ground.ts'
import { agentkNamespace } from './hop/ours.ts'
import { askProgram } from './support/ask-program.ts'
import { addTo, type Row, report } from './support/figures.ts'
import { readOptions, refuse } from './support/options.ts'
import { cpuSeconds, Programs } from './support/programs.ts'

const options = readOptions(
  { objects: 10_000, sources: 100, rounds: 2, settle: 130, turns: 5, seconds: 20, writes: 10_000 },
  ['memory', 'tenant'],
)
const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
if (missing.length > 0) refuse(`drift needs ${missing.join(', ')} in KUBEBUILDER_ASSETS`)

/** Memory of agentk, after a collection. Bytes */
interface Memory {
  readonly heap: number
  readonly external: number
  readonly rss: number
}

const probe = `--import=${join(import.meta.dirname, 'drift/memory-probe.mjs')}`
/** Limit of a first sync: 10,000 objects at 150 calls a second take 67 s. ms */
const syncTimeoutMs = 600_000
/** Pause after a state is reported: calls on their way end. ms */
const lateCallsMs = 5000
/** Time in which the use of CPU is measured, and the limit of such times. ms */
const [restMs, mostRestMs] = [5000, 120_000]
/** of a core: collections that are not watched are read each minute */
const idleShare = 0.1
const mebibyte = 2 ** 20
const rows: Record<Mode | 'idle' | 'others' | 'tenant', Row> = {
  none: {},
  correct: {},
  idle: {},
  others: {},
  tenant: {},
}
const folder = mkdtempSync(join(tmpdir(), 'bench-drift-'))
try {
  if (!options.tenant) for (const sources of new Set([1, options.sources])) await memory(sources)
  if (!options.memory) await tenant()
} finally {
  rmSync(folder, { recursive: true, force: true })
}
report('drift', rows)

async function withGround(more: Partial<GroundOptions>, work: (ground: Ground, programs: Programs) => Promise<void>) {
  const place = mkdtempSync(join(folder, 'ground-'))
  const programs = new Programs()
  const stops: (() => Promise<unknown>)[] = []
  try {
    const given = { assets, folder: place, run: sourcePrograms, ...more }
    await work(await startGround(programs, given, (stop) => stops.push(stop)), programs)
  } finally {
    for (const stop of stops.toReversed()) await stop()
    programs.stop()
  }
}

async function memory(sources: number): Promise<void> {
  const layout = new Layout(sources, options.objects)
  const name = `${options.objects} objects of ${sources}`
  await withGround({ agentkFlags: ['--expose-gc', probe] }, async (ground) => {
    const { admin } = ground.controlPlane
    for (const namespace of layout.namespaces)
      await admin.create('/api/v1/namespaces', { metadata: { name: namespace } })
    await bring(ground, layout, 'none', layout.files())
    const kept = await layout.keptMiB()
    for (let round = 0; round < options.rounds; round++) {
      const modes: readonly Mode[] = ['none', 'correct']
      const found = new Map<Mode, Memory>()
      for (const mode of round % 2 === 0 ? modes : modes.toReversed()) {
        const from = ground.log.end
        await bring(ground, layout, mode)
        await sleep(lateCallsMs)
        const asked = ground.log.asked(from, ({ user }) => user.username === agentkUser, agentkNamespace)
        await sleep(options.settle * 1000)
        await rested(ground.agentkPid)
        const memory = await askProgram<Memory>(ground.agentk, {})
        found.set(mode, memory)
        addTo(rows[mode], {
          [`${name}: RSS, MiB`]: memory.rss / mebibyte,
          [`${name}: heap, MiB`]: memory.heap / mebibyte,
          [`${name}: outside the heap, MiB`]: memory.external / mebibyte,
          [`${name}: restart, calls`]: asked.calls,
          [`${name}: restart, writes of objects`]: asked.writes,
          [`${name}: watches`]: ground.log.openWatches(from, `labelSelector=${inventoryLabel}&`),
        })
        process.stderr.write(`${name}, round ${round + 1}, ${mode}: ${JSON.stringify(memory)}\n`)
      }
      const [none, correct] = modes.map((mode) => found.get(mode) as Memory) as [Memory, Memory]
      addTo(rows.correct, {
        [`${name}: RSS above none, kept manifests included, MiB`]: (correct.rss - none.rss) / mebibyte + kept,
        [`${name}: heap above none, kept manifests included, MiB`]: (correct.heap - none.heap) / mebibyte + kept,
        [`${name}: kept manifests, MiB`]: kept,
      })
    }
  })
}

/** Sets the mode, and starts agentk anew. @param files - of the first commit */
async function bring(ground: Ground, layout: Layout, mode: Mode, files: Record<string, string> = {}): Promise<void> {
  const commit = await ground.pushes.commit({ ...files, ...layout.configuration(mode) })
  await ground.tell()
  await ground.restartAgentk()
  await ground.synced(commit, AbortSignal.timeout(syncTimeoutMs), layout.sources.length)
}

/** Waits until a process uses next to no CPU: on a busy machine, the round after the settling takes long. */
async function rested(pid: number): Promise<void> {
  for (let waited = 0; waited < mostRestMs; waited += restMs) {
    const before = cpuSeconds(pid)
    await sleep(restMs)
    if (cpuSeconds(pid) - before < (idleShare * restMs) / 1000) return
  }
}

async function tenant(): Promise<void> {
  await withGround({ unrecorded: TenantGround.user }, async (ground, programs) => {
    const side = new TenantGround(ground, options)
    try {
      await side.start(programs, AbortSignal.timeout(syncTimeoutMs))
      for (let turn = 0; turn < options.turns; turn++) {
        const columns = ['idle', 'others', 'tenant'] as const
        for (const column of turn % 2 === 0 ? columns : columns.toReversed()) {
          const figures = await side.phase(column)
          addTo(rows[column], figures)
          process.stderr.write(`turn ${turn + 1}, ${column}: ${JSON.stringify(figures)}\n`)
        }
      }
    } finally {
      side.stop()
    }
  })
}
