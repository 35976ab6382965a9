/**
 * What does a hop cost? A GET of 1 KiB and a body of 64 MiB: direct, through bare bytes (the shortest program over the
 * same hops), and through kas and agentk, alternating in one run. Options: `--rounds N`, `--requests N`.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { ControlPlane } from '../dev/control-plane/control-plane.ts'
import { kubeconfigText } from '../dev/control-plane/kubeconfig.ts'
import { download, type LoadResult, load, type Target } from './hop/load.ts'
import { startOurs } from './hop/ours.ts'
import { readCounts, refuse } from './support/options.ts'
import { cpuSeconds, median, Programs } from './support/programs.ts'

const { rounds, requests } = readCounts({ rounds: 5, requests: 1500 })
const concurrencies = [1, 16, 64]
const assets = process.env.KUBEBUILDER_ASSETS
if (!assets) refuse('hop needs KUBEBUILDER_ASSETS, a folder with kube-apiserver and etcd')

type Row = Record<string, number[]>
interface Way {
  readonly name: string
  readonly target: (path: string) => Target
  readonly pids: Record<string, number>
  readonly row: Row
}

const folder = mkdtempSync(join(tmpdir(), 'bench-hop-'))
const programs = new Programs()
const cluster = new ControlPlane({ assets, parts: 'api' })
try {
  await cluster.start()
  await run()
} finally {
  programs.stop()
  await cluster.stop()
  rmSync(folder, { recursive: true, force: true })
}

async function run(): Promise<void> {
  const data = { text: 'x'.repeat(1024) }
  await cluster.admin.create('/api/v1/namespaces/default/configmaps', { metadata: { name: 'one-kib' }, data })
  const small = '/api/v1/namespaces/default/configmaps/one-kib'
  const tls = { ca: cluster.caFile, cert: cluster.adminCertificateFile, key: cluster.adminKeyFile }
  const small1 = await waysTo(cluster.server, cluster.kubeconfig, tls, 'small')
  const files = {
    ca: cluster.caFile,
    cert: join(cluster.folder, 'serving.crt'),
    key: join(cluster.folder, 'serving.key'),
  }
  const body = await programs.start<{ port: number }>(join(import.meta.dirname, 'hop/large-body.ts'), [
    JSON.stringify(files),
  ])
  const bodyServer = `https://127.0.0.1:${body.said.port}`
  const bodyKubeconfig = join(folder, 'body.kubeconfig')
  const user = { certificateFile: tls.cert, keyFile: tls.key }
  writeFileSync(bodyKubeconfig, kubeconfigText({ server: bodyServer, caFile: tls.ca, user }))
  const large = await waysTo(bodyServer, bodyKubeconfig, tls, 'large')
  // compiled code is what is compared: none of this counts
  for (const { target } of small1) await load(target(small), 16, requests)
  for (const { target } of large) await download(target('/64mib'))
  for (let round = 0; round < rounds; round++) {
    const turn = <Item>(items: Item[]) => (round % 2 ? items.toReversed() : items)
    for (const inFlight of concurrencies) for (const way of turn(small1)) await measure(way, small, inFlight)
    for (const way of turn(large)) add(way.row, 'MB/s', await download(way.target('/64mib')))
    process.stderr.write(`round ${round + 1} of ${rounds}\n`)
  }
  report(small1, large)
}

async function waysTo(
  server: string,
  kubeconfig: string,
  tls: { ca: string; cert: string; key: string },
  name: string,
) {
  const here = (file: string) => join(import.meta.dirname, 'hop', file)
  const bareKas = await programs.start<{ agentsPort: number; httpPort: number }>(here('bare-kas.ts'), [])
  const settings = JSON.stringify({ agentsPort: bareKas.said.agentsPort, apiServer: server, ...tls })
  const bareAgent = await programs.start(here('bare-agent.ts'), [settings])
  const ours = await startOurs(programs, join(folder, name), kubeconfig)
  const origin = `http://127.0.0.1:${bareKas.said.httpPort}`
  const ways: Way[] = [
    { name: 'direct', target: (path) => ({ origin: server, path, headers: {}, tls }), pids: {}, row: {} },
    {
      name: 'bare bytes',
      target: (path) => ({ origin, path, headers: {} }),
      pids: { kas: bareKas.pid, agentk: bareAgent.pid },
      row: {},
    },
    { name: 'kas', target: ours.target, pids: { kas: ours.kasPid, agentk: ours.agentkPid }, row: {} },
  ]
  return ways
}

async function measure({ row, target, pids }: Way, path: string, inFlight: number): Promise<void> {
  const before = Object.entries(pids).map(([name, pid]) => [name, pid, cpuSeconds(pid)] as const)
  const count = inFlight === 1 ? Math.ceil(requests / 3) : requests
  const result: LoadResult = await load(target(path), inFlight, count)
  add(row, `p50 ms at ${inFlight}`, result.p50Ms)
  add(row, `p99 ms at ${inFlight}`, result.p99Ms)
  add(row, `requests/s at ${inFlight}`, result.perSecond)
  for (const [name, pid, cpu] of before) {
    add(row, `CPU s per 1,000 at ${inFlight}, ${name}`, ((cpuSeconds(pid) - cpu) / count) * 1000)
  }
}

function add(row: Row, name: string, value: number): void {
  row[name] ??= []
  row[name].push(value)
}

/** One line a figure: medians, the spread over the rounds, and kas against the two others, pair by pair. */
function report(...groups: Way[][]): void {
  const results: Record<string, Record<string, number>> = {}
  const print = (cells: string[]) =>
    process.stdout.write(`${cells.map((cell, i) => cell.padEnd(i ? 24 : 34)).join('')}\n`)
  print(['median [min to max]', 'direct', 'bare bytes', 'kas', 'kas / bare', 'kas / direct'])
  for (const [direct, bare, ours] of groups as [Way, Way, Way][]) {
    for (const name of Object.keys(ours.row)) {
      const ratio = (other: Way) => {
        const pairs = other.row[name]?.map((value, i) => ((ours.row[name] as number[])[i] as number) / value)
        return pairs ? median(pairs) : undefined
      }
      const toBare = ratio(bare)
      const toDirect = ratio(direct)
      print([
        name,
        shown(direct.row[name]),
        shown(bare.row[name]),
        shown(ours.row[name]),
        short(toBare),
        short(toDirect),
      ])
      results[name] = {
        ...(direct.row[name] ? { direct: median(direct.row[name]) } : {}),
        bare: median(bare.row[name] as number[]),
        kas: median(ours.row[name] as number[]),
        kasToBare: toBare as number,
      }
    }
  }
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim()
  process.stdout.write(
    `${JSON.stringify({ bench: 'hop', commit, node: process.version, cpus: cpus().length, results })}\n`,
  )
}

function shown(values: number[] | undefined): string {
  return values ? `${short(median(values))} [${short(Math.min(...values))} to ${short(Math.max(...values))}]` : ''
}

function short(value: number | undefined): string {
  return value === undefined ? '' : value.toPrecision(3)
}
