/**
 * What does the access log cost a call? The calls are GETs of 1 KiB at the replica that holds the agent, 16 at a time.
 * These variants alternate in one run:
 * - no log
 * - the default log, which has no lines for reads
 * - a line for each call in a file
 * - the same with a full disk
 * - a pipe whose reader has stopped
 *
 * At the end, written and lost lines are compared with the calls. Options: `--rounds N`, `--requests N`.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { createReadStream, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { ControlPlane } from '../dev/control-plane/control-plane.ts'
import { load, type Target } from './hop/load.ts'
import { startOurs } from './hop/ours.ts'
import { addTo, type Row, report } from './support/figures.ts'
import { readCounts, refuse } from './support/options.ts'
import { cpuSeconds, median, Programs } from './support/programs.ts'

const { rounds, requests } = readCounts({ rounds: 5, requests: 3000 })
const inFlight = 16
/** size of the full disk: once there is room, all waiting lines fit */
const diskBytes = 16 * 1024 * 1024
const patienceMs = 30_000
const all = [{ level: 'metadata' }]

const assets = process.env.KUBEBUILDER_ASSETS
if (!assets) refuse('access-log needs KUBEBUILDER_ASSETS, a folder with kube-apiserver and etcd')

interface Variant {
  readonly name: string
  readonly target: Target
  readonly opsPort: number
  readonly pid: number
  /** file of its lines; undefined: its lines are not counted */
  readonly file?: string
  /** file that fills its disk, and which `rmSync` removes */
  readonly filler?: string
  readonly row: Row
  /** counts before the first measured call */
  readonly begun: Count
  calls: number
}

const folder = mkdtempSync(join(tmpdir(), 'bench-access-log-'))
const disk = join(folder, 'disk')
const programs = new Programs()
const cluster = new ControlPlane({ assets, parts: 'api' })
let isMounted = false
try {
  mkdirSync(disk)
  isMounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${diskBytes}`, 'tmpfs', disk]).status === 0
  await cluster.start()
  await cluster.admin.create('/api/v1/namespaces/default/configmaps', {
    metadata: { name: 'one-kib' },
    data: { text: 'x'.repeat(1024) },
  })
  const variants = await start()
  for (const variant of variants) await measure(variant, false) // compiled code is compared
  for (let round = 0; round < rounds; round++) {
    for (const variant of round % 2 ? variants.toReversed() : variants) await measure(variant, true)
    process.stderr.write(`round ${round + 1} of ${rounds}\n`)
  }
  compare(variants)
  for (const variant of variants) await count(variant)
  report('access-log', Object.fromEntries(variants.map(({ name, row }) => [name, row])))
} finally {
  programs.stop()
  await cluster.stop()
  if (isMounted) execFileSync('umount', ['-l', disk])
  rmSync(folder, { recursive: true, force: true })
}

async function start(): Promise<Variant[]> {
  const own = async (name: string, accessLog: object, more: Pick<Variant, 'file' | 'filler'> = {}) => {
    const ours = await startOurs(programs, join(folder, name.replaceAll(' ', '-')), cluster.kubeconfig, undefined, {
      accessLog,
      hasStoppedReader: name === 'stopped reader',
    })
    const target = ours.holder.target('/api/v1/namespaces/default/configmaps/one-kib')
    const { pid, ops: opsPort } = ours.holder
    const begun = await settled({ opsPort, ...more }, 0)
    return { name, target, pid, opsPort, ...more, row: {}, begun, calls: 0 } satisfies Variant
  }
  const file = join(folder, 'access.log')
  const variants = [
    await own('none', { output: 'none' }),
    await own('default', { output: 'stdout' }),
    await own('all', { output: file, rules: all, exec_command: 'full' }, { file }),
    await own('stopped reader', { output: 'stdout', rules: all }),
  ]
  if (!isMounted) {
    console.log('full disk: left out, a file system of its own cannot be mounted here')
    return variants
  }
  const onDisk = join(disk, 'access.log')
  const full = await own('full disk', { output: onDisk, rules: all }, { file: onDisk, filler: join(disk, 'filler') })
  fill(join(disk, 'filler'))
  return [...variants, full]
}

/** Fills the disk to the last byte. */
function fill(path: string): void {
  try {
    writeFileSync(path, Buffer.alloc(2 * diskBytes))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  }
}

async function measure(variant: Variant, counts: boolean): Promise<void> {
  const before = cpuSeconds(variant.pid)
  const { p50Ms, p99Ms, perSecond } = await load(variant.target, inFlight, requests)
  variant.calls += requests + inFlight
  if (!counts) return
  const cpuUs = ((cpuSeconds(variant.pid) - before) * 1e6) / (requests + inFlight)
  addTo(variant.row, { 'p50, ms': p50Ms, 'p99, ms': p99Ms, 'a second': perSecond, 'CPU of kas, us a call': cpuUs })
}

/** Compares each variant with the one without a log, pair by pair of one round. */
function compare([without, ...others]: readonly Variant[]): void {
  for (const { name, row } of others) {
    for (const figure of ['p99, ms', 'a second', 'CPU of kas, us a call']) {
      const ratios = (row[figure] ?? []).map((value, i) => value / (without?.row[figure]?.[i] ?? Number.NaN))
      const [middle, least, most] = [median(ratios), Math.min(...ratios), Math.max(...ratios)].map((one) =>
        one.toFixed(3),
      )
      console.log(`${name} / none, ${figure}: ${middle} [${least} to ${most}]`)
    }
  }
}

interface Written {
  readonly opsPort: number
  readonly file?: string | undefined
}

interface Count {
  readonly written: number
  readonly lost: number
  /** lines in the file */
  readonly lines: number
}

/** Frees the disk, waits until the waiting lines are written, and counts the lines since `begun`. */
async function count({ name, calls, opsPort, file, filler, row, begun }: Variant): Promise<void> {
  if (filler) rmSync(filler)
  const hasLines = name !== 'none' && name !== 'default'
  const now = await settled({ opsPort, file }, hasLines ? calls + begun.written + begun.lost : 0)
  const [written, lost, lines] = [now.written - begun.written, now.lost - begun.lost, now.lines - begun.lines]
  addTo(row, { calls, 'lines written': written, 'lines lost': lost })
  if (!file) return
  const isExact = lines + lost === calls // a line with the number of lost ones is written, too
  console.log(`${name}: ${calls} calls, ${lines} lines in the file, ${lost} lost${isExact ? '' : ': NOT AS MANY'}`)
}

/** Counts lines of reads: handed on, lost, and in the file, once the counts do not change. */
async function settled({ opsPort, file }: Written, wanted: number): Promise<Count> {
  const end = Date.now() + patienceMs
  for (let last = ''; ; await sleep(1000)) {
    const text = await (await fetch(`http://127.0.0.1:${opsPort}/metrics`)).text()
    const of = (metric: string) => Number(new RegExp(`^${metric}{class="read"} (\\d+)`, 'm').exec(text)?.[1] ?? 0)
    const [written, lost] = [of('kas_access_log_lines_total'), of('kas_access_log_lost_lines_total')]
    const found = { written, lost, lines: file ? await linesOf(file) : 0 }
    if ((written + lost >= wanted && JSON.stringify(found) === last) || Date.now() > end) return found
    last = JSON.stringify(found)
  }
}

async function linesOf(file: string): Promise<number> {
  let lines = 0
  for await (const line of createInterface(createReadStream(file))) {
    if (!line.endsWith('}')) continue // it is being written
    const { event, class: of } = JSON.parse(line) as { event: string; class: string }
    if (event === 'end' && of === 'read') lines++
  }
  return lines
}
