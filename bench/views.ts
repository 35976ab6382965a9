/**
 * What does it cost agentk to keep views of a whole cluster, and how soon does a viewer get a change? The programs run
 * as in production, with an API double with Pods of 4.8 KB. An informer of client-node and `kubectl get --watch` are
 * measured beside them.
 *
 * Options: `--objects N`, `--children N` of one parent, `--changes N` a second, `--seconds N` of changes, `--viewers
 * N`. `--before N` is seconds of GETs before the list, `--alone` leaves out other clients, `--installed` uses the
 * programs of the images.
 */
import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { TemporaryInstallation } from '../dev/installed/temporary-installation.ts'
import { sourcePrograms } from '../dev/start/local-programs.ts'
import { askProgram, hear } from './support/ask-program.ts'
import { machineTime } from './support/machine-time.ts'
import { readOptions } from './support/options.ts'
import { percentile } from './support/percentile.ts'
import { cpuSeconds, Programs } from './support/programs.ts'
import { askDouble, askViewers, type Ground, startGround } from './views/ground.ts'
import type { Change, First, ListsAnswer, ProbeQuestion, Stall } from './views/questions.ts'
import { SteadyGets } from './views/steady-gets.ts'
import { uidOf } from './views/world.ts'

const options = readOptions({ objects: 100_000, children: 50_000, changes: 100, seconds: 20, viewers: 5, before: 5 }, [
  'alone',
  'installed',
])
const { objects, children, changes, seconds, viewers, before } = options

/** Pause after a list or changes, before memory is read. ms */
const settleMs = Math.min(5000, seconds * 250)
const results: Record<string, number> = {}
const folder = mkdtempSync(join(tmpdir(), 'bench-views-'))
const programs = new Programs()
const installation = new TemporaryInstallation({ onStep: (text) => process.stderr.write(`${text}\n`) })
try {
  if (options.installed) await installation.start()
  const run = options.installed ? installation.programs : sourcePrograms
  const ground = await startGround(programs, { folder, objects, run })
  await list(ground)
  await change(ground, 'all')
  await family(ground)
  if (!options.alone) {
    await beside(ground, 'informer of client-node', () => startInformer(ground))
    const kubectl = join(process.env.KUBEBUILDER_ASSETS ?? '', 'kubectl')
    if (process.env.KUBEBUILDER_ASSETS) await beside(ground, 'kubectl get --watch', () => startKubectl(kubectl, ground))
    else console.log('kubectl get --watch: needs KUBEBUILDER_ASSETS')
  }
} finally {
  programs.stop()
  await installation.stop()
  rmSync(folder, { recursive: true, force: true })
}
const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim()
console.log(JSON.stringify({ bench: 'views', objects, commit, node: process.version, cpus: cpus().length, results }))

function tell(figure: string, value: number): void {
  results[figure] = Number(value.toPrecision(3))
  console.log(`${figure.padEnd(72)}${results[figure]}`)
}

/**
 * Measures the first list, with GETs beside it, and the first updates after it. Its views are those of another user than
 * all others: views of one user may have 300,000 objects.
 */
async function list(ground: Ground): Promise<void> {
  const pid = ground.agentk.pid as number
  await askDouble(ground, { kind: 'asked' })
  const waiting = askViewers<First>(ground, { kind: 'open', count: 1, query: { view: 'tree' }, user: 0 })
  const gets = new SteadyGets(ground.target('/api/v1/namespaces/ns-00/pods/first'))
  await sleep(1000) // the first ones open connections
  const idle = await stallWhile(ground, () => sleep(before * 1000))
  const cpu = cpuSeconds(pid)
  tell('agentk, RSS before the list, MB', memoryMb(pid, 'VmRSS'))
  const from = machineTime()
  await askDouble(ground, { kind: 'release' })
  const live: { first?: First } = {}
  const listing = await stallWhile(ground, async () => {
    live.first = await waiting
  })
  const to = machineTime()
  const { begunAt, endedAt, bytes } = await askDouble<ListsAnswer>(ground, { kind: 'lists' })
  tell('first list until a viewer has it, s', ((live.first?.at ?? 0) - begunAt) / 1000)
  tell('first list, MB', bytes / 1e6)
  tell('first list, CPU of agentk, s', cpuSeconds(pid) - cpu)
  tell('first update after the list: open before, ms', (live.first?.at ?? 0) - endedAt)
  for (const view of ['tree', 'list']) {
    const fresh = await askViewers<First>(ground, { kind: 'open', count: 1, query: { view, limit: 500 }, user: 0 })
    tell(`first update after the list: ${view} opened then, ms`, fresh.ms)
    tell(`first update after the list: ${view} opened then, KB`, fresh.bytes / 1e3)
  }
  await gets.stop()
  const [quiet, busy] = [gets.percentiles(from - before * 1000, from), gets.percentiles(begunAt, to)]
  tell('GET before, p50, ms', quiet.p50)
  tell('GET before, p99, ms', quiet.p99)
  tell('GET while it lists, p50, ms', busy.p50)
  tell('GET while it lists, p99, ms', busy.p99)
  tell('stall of the main thread before: p99, ms', idle.p99)
  tell('stall of the main thread before: most, ms', idle.most)
  tell('stall of the main thread while it lists: p99, ms', listing.p99)
  tell('stall of the main thread while it lists: most, ms', listing.most)
  await sleep(settleMs)
  tell('agentk, RSS after the list, MB', memoryMb(pid, 'VmRSS'))
  tell('agentk, most RSS so far, MB', memoryMb(pid, 'VmHWM'))
}

/** Measures changes; each second one is of a Pod that each viewer has on its page. */
async function change(ground: Ground, among: 'all' | 'family'): Promise<void> {
  const pid = ground.agentk.pid as number
  const name = among === 'all' ? `${changes} changes a second` : `${changes} changes a second among the children`
  const namespace = among === 'all' ? 'ns-00' : 'family'
  const query = { view: 'list', scope: { namespaces: [namespace] }, filter: { kinds: ['Pod'] }, limit: 500 }
  const opened = await askViewers<First>(ground, { kind: 'open', count: viewers, query, user: 1 })
  tell(`${name}: ${viewers} views of 500 rows are opened, ms`, opened.ms)
  const used = [cpuSeconds(pid), cpuSeconds(ground.kasPid)] as const
  await askViewers(ground, { kind: 'seen' })
  const made = await askDouble<Change[]>(ground, { kind: 'change', perSecond: changes, seconds, among })
  await sleep(1000) // for changes on their way
  const seen = await askViewers<Change[]>(ground, { kind: 'seen' })
  const times = latencies(made, seen)
  tell(`${name}: until seen, p50, ms`, percentile(times, 0.5))
  tell(`${name}: until seen, p99, ms`, percentile(times, 0.99))
  tell(`${name}: until seen, the last, ms`, percentile(times, 1))
  tell(`${name}: CPU of agentk, of a core`, (cpuSeconds(pid) - used[0]) / (seconds + 1))
  tell(`${name}: CPU of kas, of a core`, (cpuSeconds(ground.kasPid) - used[1]) / (seconds + 1))
  tell(`${name}: agentk, RSS, MB`, memoryMb(pid, 'VmRSS'))
}

/**
 * Returns the times from each change until the first viewer that has it, or a newer one. @throws Error if no viewer has
 * it
 */
function latencies(made: readonly Change[], seen: readonly Change[]): number[] {
  const byUid = Map.groupBy(seen, ({ uid }) => uid)
  return made.map(({ uid, restarts, at }) => {
    const found = byUid.get(uid)?.find((one) => one.restarts >= restarts)
    if (!found) throw new Error(`nobody saw a change of ${uid}`)
    return found.at - at
  })
}

/** Measures one parent of many children. */
async function family(ground: Ground): Promise<void> {
  const pid = ground.agentk.pid as number
  const sets = Math.floor(objects / 16) * 2
  const query = { view: 'tree', scope: { namespaces: ['family'] }, limit: 100 }
  await askViewers<First>(ground, { kind: 'open', count: 1, query, user: 1 })
  const cpu = cpuSeconds(pid)
  await askDouble(ground, { kind: 'family', children })
  await sleep(settleMs)
  tell(`${children} children come: CPU of agentk, s`, cpuSeconds(pid) - cpu)
  const set = uidOf('ReplicaSet', sets)
  await askViewers<First>(ground, { kind: 'open', count: 1, query, user: 1 })
  const page = await askViewers<First>(ground, { kind: 'page', node: set, limit: 100 })
  tell('its page, ms', page.ms)
  const [bundle = ''] = page.order
  const inside = await askViewers<First>(ground, { kind: 'page', node: bundle, limit: 500 })
  tell('the page of its children, 500 rows, ms', inside.ms)
  tell('the page of its children, 500 rows, KB', inside.bytes / 1e3)
  await change(ground, 'family')
}

/** Measures another program alone that lists and watches the same kinds. */
async function beside(ground: Ground, name: string, start: () => Promise<readonly number[]>): Promise<void> {
  const begun = machineTime()
  const pids = await start()
  const sum = (of: (pid: number) => number) => pids.reduce((all, pid) => all + of(pid), 0)
  tell(`${name}: the list, s`, (machineTime() - begun) / 1000)
  tell(`${name}: the list, CPU, s`, sum(cpuSeconds))
  await sleep(settleMs)
  tell(
    `${name}: RSS, MB`,
    sum((pid) => memoryMb(pid, 'VmRSS')),
  )
  tell(
    `${name}: most RSS, MB`,
    sum((pid) => memoryMb(pid, 'VmHWM')),
  )
  const used = sum(cpuSeconds)
  await askDouble(ground, { kind: 'change', perSecond: changes, seconds, among: 'all' })
  tell(`${name}: ${changes} changes a second, CPU, of a core`, (sum(cpuSeconds) - used) / seconds)
  for (const pid of pids) process.kill(pid, 'SIGKILL')
}

async function startInformer({ kubeconfig }: Ground): Promise<number[]> {
  const informer = programs.spawn(join(import.meta.dirname, 'views/informer.ts'), [kubeconfig])
  await hear(informer)
  return [informer.pid as number]
}

/** Starts one kubectl for each kind, since it watches no two. Each has listed when its output pauses. */
async function startKubectl(kubectl: string, { kubeconfig }: Ground): Promise<number[]> {
  const kinds = ['pods', 'configmaps', 'deployments', 'replicasets']
  return await Promise.all(
    kinds.map(async (kind) => {
      const args = ['get', kind, '--all-namespaces', '--watch', '--no-headers', `--kubeconfig=${kubeconfig}`]
      const child = spawn(kubectl, args, { stdio: ['ignore', 'pipe', 'ignore'] })
      process.once('exit', () => child.kill('SIGKILL'))
      let lines = 0
      const last = kind === 'pods' ? Math.floor(objects / 16) * 12 : Math.floor(objects / 16)
      await new Promise<void>((resolve, reject) => {
        child.once('exit', (code) => reject(new Error(`kubectl get ${kind} ended with ${code}`)))
        child.stdout.on('data', (chunk: Buffer) => {
          for (const byte of chunk) if (byte === 0x0a) lines++
          if (lines >= last) resolve()
        })
      })
      return child.pid as number
    }),
  )
}

async function stallWhile(ground: Ground, work: () => Promise<unknown>): Promise<Stall> {
  const ask = (kind: ProbeQuestion['kind']) => askProgram<Stall>(ground.agentk, { kind })
  await ask('anew')
  await work()
  return await ask('stall')
}

function memoryMb(pid: number, what: 'VmRSS' | 'VmHWM'): number {
  const [, kib] = new RegExp(`^${what}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return (Number(kib) * 1024) / 1e6
}
