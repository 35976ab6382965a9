import type { TLSSocket } from 'node:tls'
import { delay } from '../../src/lib/signals.ts'
import type { EndlessCluster } from './endless-cluster.ts'
import type { Ground, ResidentMemory } from './ground.ts'
import { type Findings, median, type Stage } from './scene.ts'

export interface ReadersOptions {
  readonly readers: number
  readonly pairs: number
  /** calls that are timed, one after another, on each side of a pair */
  readonly calls: number
  /** network delay from agentk to kas and back */
  readonly milliseconds: number
}

export const maxMebibytesPerReader = 2
export const maxSlowdown = 1.25

/** Bytes that a reader reads before it stops. */
const readBytes = 256 * 1024
/** Number of readers that read `warmUpBytes` without a stop before the first measurement, and leave. */
const warmUpReaders = 8
const warmUpBytes = 32 * 1024 * 1024
/** Time without any progress after which all buffers are full. ms */
const settledMs = 1_500
const askAgainMs = 100
const settleTimeoutMs = 120_000
const mebibyte = 1024 * 1024
const smallPath = '/api/v1/namespaces/default/configmaps/small'
const logPath = '/api/v1/namespaces/default/pods/endless/log?follow=true'

interface Sample {
  readonly medianMs: number
  readonly memory: ResidentMemory
}

/**
 * Readers of an endless log stop reading. They take little memory of kas and agentk and slow no other caller. Pairs of
 * measurements with and without them compare that, and the order alternates.
 */
export async function readers(
  stage: Stage,
  { ground, cluster }: { ground: Ground; cluster: EndlessCluster },
  options: ReadersOptions,
): Promise<Findings> {
  const measure = () => sample(stage, ground, options.calls)
  await measure() // compiles code
  await warmUp(stage, cluster) // leaves the usual cost of logs behind: garbage, pools of malloc
  const base = (await measure()).memory
  stage.say(`kas ${mib(base.kas)} MiB, agentk ${mib(base.agentk)} MiB before the first reader`)
  const pairs: { without: Sample; beside: Sample }[] = []
  for (let i = 0; i < options.pairs; i++) {
    const without = i % 2 === 0 ? await measure() : undefined
    const { sockets, left } = await stopReaders(stage, cluster, options.readers)
    const beside = await measure()
    for (const socket of sockets) socket.destroy()
    await settled(stage, cluster, 0)
    pairs.push({ beside, without: without ?? (await measure()) })
    stage.say(pairLine(pairs.length, pairs[i] as (typeof pairs)[number], base, options.readers))
    if (left < options.readers) stage.say(`${options.readers - left} readers were ended: others hold what an agent may`)
  }
  return judge(pairs, base, options.readers)
}

function judge(pairs: readonly { without: Sample; beside: Sample }[], base: ResidentMemory, count: number): Findings {
  const each = pairs.map(({ beside }) => perReader(beside.memory, base, count))
  const most = Math.max(...each)
  const ratios = pairs.map(({ beside, without }) => beside.medianMs / without.medianMs)
  const slowdown = median(ratios)
  const alone = pairs.map(({ without }) => without.medianMs)
  const sorted = [...ratios].sort((a, b) => a - b)
  return {
    figures: [
      `memory of kas and agentk together, a stopped reader: most ${most.toFixed(2)} MiB, median ${median(each).toFixed(2)} MiB (at most ${maxMebibytesPerReader})`,
      `median of other calls with readers to without: ${slowdown.toFixed(2)} (at most ${maxSlowdown}); of single pairs ${sorted[0]?.toFixed(2)} to ${sorted.at(-1)?.toFixed(2)}`,
      `noise: medians without readers from ${Math.min(...alone).toFixed(2)} to ${Math.max(...alone).toFixed(2)} ms`,
    ],
    failures: [
      ...(most > maxMebibytesPerReader ? [`a stopped reader adds ${most.toFixed(2)} MiB`] : []),
      ...(slowdown > maxSlowdown ? [`other calls take ${slowdown.toFixed(2)} times as long`] : []),
    ],
  }
}

/** Makes calls one after another, then measures the memory. */
async function sample({ kube, signal }: Stage, ground: Ground, calls: number): Promise<Sample> {
  const times: number[] = []
  for (let i = 0; i < calls; i++) {
    const began = performance.now()
    const { status } = await kube.ask(smallPath, { signal })
    if (status !== 200) throw new Error(`${smallPath}: ${status}`)
    times.push(performance.now() - began)
  }
  return { medianMs: median(times), memory: await ground.residentMemory }
}

/** Opens readers that stop; resolves when no bytes flow to them. @returns `left`: readers that kas has not ended */
async function stopReaders(stage: Stage, cluster: EndlessCluster, count: number) {
  const sockets = await Promise.all(Array.from({ length: count }, () => startReader(stage, readBytes)))
  return { sockets, left: await settled(stage, cluster, count) }
}

async function warmUp(stage: Stage, cluster: EndlessCluster): Promise<void> {
  const sockets = await Promise.all(Array.from({ length: warmUpReaders }, () => startReader(stage, warmUpBytes)))
  for (const socket of sockets) socket.destroy()
  await settled(stage, cluster, 0)
}

/** Resolves once the reader has read `bytes` and stopped. */
async function startReader({ kube }: Stage, bytes: number): Promise<TLSSocket> {
  const socket = await kube.dial()
  const { credential, server } = kube.options
  const head = [`GET ${logPath} HTTP/1.1`, `Host: ${new URL(server).host}`, `Authorization: Bearer ${credential}`]
  socket.write(`${head.join('\r\n')}\r\n\r\n`)
  let taken = 0
  await new Promise<void>((resolve, reject) => {
    socket.on('error', reject)
    socket.on('close', () => reject(new Error('a reader was cut')))
    socket.on('data', (chunk: Buffer) => {
      if (taken === 0 && !chunk.toString('latin1').startsWith('HTTP/1.1 200')) reject(new Error(chunk.toString()))
      taken += chunk.length
      if (taken < bytes) return
      socket.pause()
      resolve()
    })
  })
  return socket
}

/** Polls the API double until it has at most `most` readers and sends nothing more. @returns readers */
async function settled({ signal }: Stage, cluster: EndlessCluster, most: number): Promise<number> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(settleTimeoutMs)])
  let last = await cluster.stats()
  let since = performance.now()
  for (;;) {
    await delay(askAgainMs, limit)
    const now = await cluster.stats()
    if (now.readers > most || now.readers !== last.readers || now.sentBytes !== last.sentBytes)
      since = performance.now()
    last = now
    if (performance.now() - since >= settledMs) return now.readers
  }
}

const mib = (bytes: number) => (bytes / mebibyte).toFixed(1)
const perReader = (memory: ResidentMemory, base: ResidentMemory, count: number) =>
  (memory.kas + memory.agentk - base.kas - base.agentk) / mebibyte / count

function pairLine(
  number: number,
  { beside, without }: { beside: Sample; without: Sample },
  base: ResidentMemory,
  count: number,
): string {
  return [
    `pair ${number}: a call ${beside.medianMs.toFixed(2)} ms beside readers, ${without.medianMs.toFixed(2)} ms without`,
    `kas ${mib(beside.memory.kas)}, agentk ${mib(beside.memory.agentk)} MiB beside`,
    `${mib(without.memory.kas)}, ${mib(without.memory.agentk)} without`,
    `${perReader(beside.memory, base, count).toFixed(2)} MiB a reader`,
  ].join('; ')
}
