import assert from 'node:assert/strict'
import type { Kubectl } from './kubectl.ts'
import type { Exit, Processes, TestProcess } from './processes.ts'
import { mainOf } from './programs.ts'

/** A stream of one user by one replica, which has been seen to run. */
export interface LastingStream {
  readonly what: string
  readonly process: TestProcess
  /** its protocol can carry the reason of its end */
  readonly saysWhy: boolean
}

/** A user's kubectl, in whose namespace the Deployment `web` runs. */
export interface LastingSide {
  readonly name: string
  /** kubectl as the user */
  readonly kubectl: Kubectl
  readonly kubeconfig: string
  readonly processes: Processes
}

/** longer than a test or a scene: a stream that ends before was ended by kas */
const runs = ['exec', 'deployment/web', '--', 'sh', '-c', 'echo begun; exec sleep 7200']

type Form = 'WebSocket' | 'SPDY'

function environment(form: Form): Record<string, string> {
  const isWebSocket = String(form === 'WebSocket')
  return { KUBECTL_REMOTE_COMMAND_WEBSOCKETS: isWebSocket, KUBECTL_PORT_FORWARD_WEBSOCKETS: isWebSocket }
}

async function watch({ kubectl }: LastingSide): Promise<TestProcess> {
  const process = await kubectl.start(['get', 'configmaps', '--watch', '--output-watch-events'])
  await process.says(/ADDED +kube-root-ca\.crt /)
  return process
}

async function exec({ kubectl }: LastingSide, form: Form): Promise<TestProcess> {
  const process = await kubectl.start(runs, { environment: environment(form) })
  await process.says(/^begun/)
  return process
}

async function forward({ kubectl }: LastingSide, form: Form): Promise<TestProcess> {
  const process = await kubectl.start(['port-forward', 'deployment/web', ':80'], { environment: environment(form) })
  const [, port] = await process.says(/Forwarding from 127\.0\.0\.1:(\d+) -> 80/)
  const answer = await fetch(`http://127.0.0.1:${port}/`, { headers: { connection: 'close' } })
  assert.match(await answer.text(), /hello from the pod/)
  return process
}

async function log({ kubectl }: LastingSide): Promise<TestProcess> {
  const process = await kubectl.start(['logs', '--follow', 'deployment/web'])
  await process.says(/hello from the pod/)
  return process
}

async function view({ kubectl, kubeconfig, processes }: LastingSide): Promise<TestProcess> {
  const { namespace } = kubectl
  const process = await processes.spawn({
    command: globalThis.process.execPath,
    args: [mainOf('kas'), 'tree', '--kubeconfig', kubeconfig, '--namespace', namespace, '--watch', '--output', 'json'],
  })
  await process.says(/"web"/)
  return process
}

const kinds = [
  { what: 'watch', open: watch, saysWhy: true },
  { what: 'exec, WebSocket', open: (side: LastingSide) => exec(side, 'WebSocket'), saysWhy: true },
  { what: 'exec, SPDY', open: (side: LastingSide) => exec(side, 'SPDY'), saysWhy: true },
  { what: 'port-forward, WebSocket', open: (side: LastingSide) => forward(side, 'WebSocket'), saysWhy: false },
  { what: 'port-forward, SPDY', open: (side: LastingSide) => forward(side, 'SPDY'), saysWhy: false },
  { what: 'logs --follow', open: log, saysWhy: false },
  { what: 'view', open: view, saysWhy: true },
] as const

export type LastingKind = (typeof kinds)[number]['what']

/** @param only - default: all */
export async function openLasting(side: LastingSide, only?: readonly LastingKind[]): Promise<LastingStream[]> {
  const opened = kinds
    .filter(({ what }) => !only || only.includes(what))
    .map(async ({ what, open, saysWhy }) => ({ what: `${side.name}: ${what}`, process: await open(side), saysWhy }))
  return await Promise.all(opened)
}

export interface EndedStream {
  readonly what: string
  readonly ms: number
  readonly exit: Exit
}

/** @returns time and result of each end. @throws Error with the streams that have not ended within `timeoutMs` */
export async function endedWithin(streams: readonly LastingStream[], timeoutMs: number): Promise<EndedStream[]> {
  const begin = performance.now()
  return await Promise.all(
    streams.map(async ({ what, process }) => {
      const exit = await process.ends({ timeoutMs })
      return { what, ms: performance.now() - begin, exit }
    }),
  )
}

/** Output of kubectl, which prints an event `ERROR` as it prints the others. */
export function saidBy({ stdout, stderr }: Exit): string {
  return `${stdout}${stderr}`
}
