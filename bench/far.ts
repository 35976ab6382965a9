/**
 * How fast is it far away? agentk is 20, 80 and 150 ms away from kas (user-space delay, both directions). All of this
 * alternates in one run:
 * - a list of 18 MB and a GET of 1 KiB, by gRPC and WebSocket, through the replica that holds the agent and through
 *   another
 * - the same by HTTP/2 to the API server over the same delay, as in client-go
 * - 64 MiB up to a small HTTPS server, and over HTTP/1.1, which has no window, over the same delay
 *
 * Options: `--rounds N`, `--requests N`, `--milliseconds N`: one delay in place of the three. `--between N`:
 * milliseconds between the replicas.
 */
import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ControlPlane } from '../dev/control-plane/control-plane.ts'
import { kubeconfigText } from '../dev/control-plane/kubeconfig.ts'
import { createServiceAccount } from '../dev/control-plane/service-account.ts'
import { buildAgentkGo, withoutGo } from '../test/support/agentk-go.ts'
import { directly, through } from './far/bulk.ts'
import { text } from './hop/contents.ts'
import { load, type Target, upload } from './hop/load.ts'
import { startOurs } from './hop/ours.ts'
import { addTo, type Row, report } from './support/figures.ts'
import { readOptions, refuse } from './support/options.ts'
import { Programs } from './support/programs.ts'

const delaysMs = [20, 80, 150]
const { rounds, requests, milliseconds, between } = readOptions(
  { rounds: 5, requests: 20, milliseconds: 0, between: 0 },
  [],
)
const assets = process.env.KUBEBUILDER_ASSETS
if (!assets) refuse('far needs KUBEBUILDER_ASSETS, a folder with kube-apiserver and etcd')

const namespace = '/api/v1/namespaces/default/configmaps'
const small = `${namespace}/one-kib`
/** number of objects; the list contains the text of all */
const objects = 18
const objectBytes = 1_000_000

interface Way {
  readonly name: string
  readonly target: (path: string) => Target
  readonly bulk: typeof through
  /** server that accepts 64 MiB */
  readonly sink: Target
}

const folder = mkdtempSync(join(tmpdir(), 'bench-far-'))
const programs = new Programs()
const cluster = new ControlPlane({ assets, parts: 'api' })
try {
  await cluster.start()
  await fill()
  const startGo = withoutGo ? undefined : await goAgent()
  if (!startGo) process.stderr.write(`no agent of grpc-go: ${withoutGo}\n`)
  const rows: Record<string, Row> = {}
  for (const ms of milliseconds > 0 ? [milliseconds] : delaysMs) Object.assign(rows, await compare(ms, startGo))
  report('far', rows)
} finally {
  programs.stop()
  await cluster.stop()
  rmSync(folder, { recursive: true, force: true })
}

async function fill(): Promise<void> {
  await cluster.admin.create(namespace, { metadata: { name: 'one-kib' }, data: { text: 'x'.repeat(1024) } })
  for (let i = 0; i < objects; i++) {
    const metadata = { name: `large-${i}`, labels: { size: 'large' } }
    await cluster.admin.create(namespace, { metadata, data: { text: 'x'.repeat(objectBytes) } })
  }
}

type StartGo = (kasAddress: string, token: string, server: string) => ChildProcess

async function goAgent(): Promise<StartGo> {
  const program = await buildAgentkGo()
  const account = await createServiceAccount(cluster.admin, { namespace: 'default', name: 'agentk-go' })
  const apiToken = cluster.signToken({ account, lifeMs: 24 * 3_600_000 })
  return (kasAddress, token, server) =>
    programs.spawnOther(
      program,
      [
        '--exit-with-stdin',
        `--kas-address=${kasAddress}`,
        `--api-server=${server}`,
        `--api-ca=${cluster.caFile}`,
        `--api-token=${apiToken}`,
      ],
      { AGENTK_TOKEN: token },
    )
}

async function compare(roundTripMs: number, startGo: StartGo | undefined): Promise<Record<string, Row>> {
  const ways = await waysAt(roundTripMs, startGo)
  const rows = Object.fromEntries(ways.map(({ name }) => [name, {} as Row]))
  const large = `${namespace}?labelSelector=size%3Dlarge`
  // compiled code is compared
  for (const { target, bulk, sink } of ways) {
    await bulk(target(large))
    await upload(sink, text)
  }
  for (let round = 0; round < rounds; round++) {
    for (const { name, target, bulk, sink } of round % 2 ? ways.toReversed() : ways) {
      const { mbPerSecond, firstMs } = await bulk(target(large))
      const { p50Ms } = await load(target(small), 1, requests)
      const up = await upload(sink, text)
      addTo(rows[name] as Row, {
        'MB/s': mbPerSecond,
        'first MB, ms': firstMs,
        'GET, p50 ms': p50Ms,
        '64 MiB up, MB/s': up,
      })
    }
    process.stderr.write(`${roundTripMs} ms: round ${round + 1} of ${rounds}\n`)
  }
  programs.stop()
  return rows
}

/** @returns a port before `port` with that network delay */
async function far(port: number, roundTripMs: number): Promise<number> {
  const program = join(import.meta.dirname, 'far/delayed-port.ts')
  return (await programs.start<{ port: number }>(program, [JSON.stringify({ port, roundTripMs })])).said.port
}

/** Starts a server in place of an API server, which accepts no body of more than 3 MiB. */
async function startSink(): Promise<{ readonly port: number; readonly kubeconfig: string }> {
  const serving = {
    ca: cluster.caFile,
    cert: join(cluster.folder, 'serving.crt'),
    key: join(cluster.folder, 'serving.key'),
  }
  const program = join(import.meta.dirname, 'hop/large-body.ts')
  const { port } = (await programs.start<{ port: number }>(program, [JSON.stringify(serving)])).said
  const kubeconfig = join(folder, `sink-${port}.kubeconfig`)
  const user = { certificateFile: cluster.adminCertificateFile, keyFile: cluster.adminKeyFile }
  writeFileSync(kubeconfig, kubeconfigText({ server: `https://127.0.0.1:${port}`, caFile: cluster.caFile, user }))
  return { port, kubeconfig }
}

async function waysAt(roundTripMs: number, startGo: StartGo | undefined): Promise<Way[]> {
  const farFrom = (port: number) => far(port, roundTripMs)
  const farBetween = async (port: number) => (between > 0 ? await far(port, between) : port)
  const taker = await startSink()
  const direct = `https://127.0.0.1:${await farFrom(Number(new URL(cluster.server).port))}`
  const tls = { ca: cluster.caFile, cert: cluster.adminCertificateFile, key: cluster.adminKeyFile }
  const ways: Way[] = [
    {
      name: `${roundTripMs} direct`,
      target: (path) => ({ origin: direct, path, headers: {}, tls }),
      bulk: directly,
      sink: { origin: `https://127.0.0.1:${await farFrom(taker.port)}`, path: '/', headers: {}, tls },
    },
  ]
  const servers = { api: cluster, sink: { server: `https://127.0.0.1:${taker.port}`, kubeconfig: taker.kubeconfig } }
  for (const scheme of ['grpc', 'ws'] as const) {
    for (const go of startGo ? [undefined, startGo] : [undefined]) {
      const make = go ? 'go-' : ''
      const start = (name: keyof typeof servers) => {
        const { server, kubeconfig } = servers[name]
        const otherAgent = go && ((address: string, token: string) => go(address, token, server))
        const folderOf = join(folder, `${name}-${make}${scheme}-${roundTripMs}`)
        return startOurs(
          programs,
          folderOf,
          kubeconfig,
          { scheme },
          { farFrom, farBetween, ...(otherAgent ? { otherAgent } : {}) },
        )
      }
      const [{ holder, other }, sinks] = [await start('api'), await start('sink')]
      for (const [role, { target }] of Object.entries({ holder, other })) {
        const sink = sinks[role as 'holder' | 'other'].target('/')
        ways.push({ name: `${roundTripMs} ${make}${scheme} ${role}`, target, bulk: through, sink })
      }
    }
  }
  return ways
}
