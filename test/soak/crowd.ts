import { randomBytes } from 'node:crypto'
import { exec } from './exec.ts'
import { type Findings, median, type Stage } from './scene.ts'
import { Watched } from './watched.ts'
import { createConfigMap, createNamespace, createPod } from './workplace.ts'

export interface CrowdOptions {
  readonly watches: number
  readonly execs: number
}

const eventTimeoutMs = 60_000
const stdinBytes = 20_000
const namespace = 'soak-crowd'

/** Opens many watches and execs at once: each watch shows its own event alone, each exec returns its own bytes. */
export async function crowd(stage: Stage, options: CrowdOptions): Promise<Findings> {
  const { kube, say, signal } = stage
  await createNamespace(kube, namespace, signal)
  await createPod(kube, namespace, 'pod', signal)
  const numbers = Array.from({ length: options.watches }, (_, i) => i)
  const opened = performance.now()
  const watches = await Promise.all(numbers.map((i) => Watched.open(kube, watchPath(i))))
  const openMs = performance.now() - opened
  say(`${watches.length} watches are open; now ${options.execs} execs and an event for each watch`)
  const execs = Promise.all(Array.from({ length: options.execs }, (_, i) => echo(stage, i)))
  const limit = AbortSignal.any([signal, AbortSignal.timeout(eventTimeoutMs)])
  const events = Promise.all(
    watches.map(async (watched, i) => {
      const began = performance.now()
      await createConfigMap(kube, namespace, nameOf(i))
      await watched.sees(nameOf(i), limit)
      return performance.now() - began
    }),
  ).catch((error: Error) => `a watch: ${error.message}`)
  const [ran, seen] = [await execs, await events]
  const strays = watches.filter((watched, i) => watched.names.size !== 1 || !watched.names.has(nameOf(i))).length
  for (const watched of watches) watched.close()
  const failed = ran.filter((outcome) => outcome !== 'ok')
  return {
    figures: [
      `${watches.length} watches opened at once in ${openMs.toFixed(0)} ms; ${watches.length - strays} told of their own event alone`,
      ...(typeof seen === 'string'
        ? []
        : [`created to seen: median ${median(seen).toFixed(0)} ms, max ${max(seen)} ms`]),
      `${ran.length} execs at once; ${ran.length - failed.length} gave ${stdinBytes} bytes back and their exit status`,
    ],
    failures: [
      ...(typeof seen === 'string' ? [seen] : []),
      ...(strays > 0 ? [`${strays} watches did not tell of their own event alone`] : []),
      ...(failed.length > 0 ? [`${failed.length} execs failed, the first: ${failed[0]}`] : []),
    ],
  }
}

/** @returns `ok`, or a description of the failure */
async function echo({ kube }: Stage, i: number): Promise<string> {
  const stdin = randomBytes(stdinBytes)
  const wanted = i % 100 // the first of them is 0: a success
  const command = ['sh', '-c', `cat; exit ${wanted}`]
  try {
    const { stdout, exitCode } = await exec(kube.options, { namespace, pod: 'pod', command, stdin })
    if (exitCode !== wanted) return `exit status ${exitCode} in the place of ${wanted}`
    return stdout.equals(stdin) ? 'ok' : `${stdout.length} bytes came back, not those sent`
  } catch (error) {
    return (error as Error).message
  }
}

const nameOf = (i: number) => `news-${i}`
const watchPath = (i: number) =>
  `/api/v1/namespaces/${namespace}/configmaps?watch=1&timeoutSeconds=600&fieldSelector=metadata.name%3D${nameOf(i)}`
const max = (values: readonly number[]) => Math.max(...values).toFixed(0)
