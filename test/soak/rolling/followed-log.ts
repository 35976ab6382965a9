import { spawn } from 'node:child_process'
import { request } from 'node:https'
import { createInterface } from 'node:readline'
import { abortable, delay } from '../../../src/lib/signals.ts'
import { type KubeOptions, trustOf } from '../kube.ts'
import type { End } from './ends.ts'

/** The end of a log, with its description. */
interface Told extends Pick<End, 'inOrder'> {
  readonly how: string
}

/** Follows the log to its end, or until `signal` aborts. */
type Follow = (onLine: () => void, signal: AbortSignal) => Promise<Told>

/** pause before it begins again. ms */
const retryMs = 200

/** A followed log, which begins again when it ends. */
export class FollowedLog {
  readonly name: string
  readonly ends: (End & Told)[] = []
  lines = 0
  readonly #follow: Follow
  readonly #stop = new AbortController()
  readonly #begun = Promise.withResolvers<void>()
  #run: Promise<void> | undefined

  constructor(name: string, follow: Follow) {
    this.name = name
    this.#follow = follow
  }

  /** Resolves once the first line has come. @throws the signal's reason */
  async start(signal: AbortSignal): Promise<void> {
    this.#run = this.#repeat()
    await abortable(this.#begun.promise, signal)
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#run
  }

  async #repeat(): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      const told = await this.#follow(() => {
        this.lines++
        this.#begun.resolve()
      }, signal)
      if (signal.aborted) return
      this.ends.push({ ...told, at: performance.now() })
      await delay(retryMs)
    }
  }
}

/** Follows with a plain client, each time on a connection of its own. @param path - path of the pod */
export function followPlainly(access: KubeOptions, path: string): Follow {
  const headers = { authorization: `Bearer ${access.credential}` }
  return (onLine, signal) => {
    const { promise, resolve } = Promise.withResolvers<Told>()
    const cut = (error: Error) => resolve({ inOrder: false, how: error.message })
    const url = new URL(`${path}/log?follow=true&tailLines=1`, access.server)
    const asked = request(url, { ...trustOf(access), headers, agent: false, signal })
    asked.on('error', cut)
    asked.on('response', (answer) => {
      answer.on('error', cut)
      createInterface({ input: answer })
        .on('line', onLine)
        .on('error', () => undefined) // the end below reports it
        .on('close', () => resolve({ inOrder: answer.complete, how: `HTTP ${answer.statusCode}` }))
    })
    asked.end()
    return promise
  }
}

/** Follows with `kubectl logs -f`. */
export function followByKubectl(
  program: string,
  { kubeconfig, cacheFolder }: { kubeconfig: string; cacheFolder: string },
  { namespace, pod }: { namespace: string; pod: string },
): Follow {
  const { PATH = '' } = process.env
  const args = [`--kubeconfig=${kubeconfig}`, `--namespace=${namespace}`, 'logs', '--follow', '--tail=1', pod]
  return (onLine, signal) => {
    const env = { PATH, HOME: cacheFolder, KUBECACHEDIR: cacheFolder }
    const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
    const end = () => child.kill()
    signal.addEventListener('abort', end, { once: true })
    let said = ''
    child.stderr.on('data', (chunk) => {
      said = `${said}${chunk}`.slice(-300)
    })
    createInterface({ input: child.stdout }).on('line', onLine)
    const { promise, resolve } = Promise.withResolvers<Told>()
    child.once('error', (error) => resolve({ inOrder: false, how: String(error) }))
    child.once('close', (code) => {
      signal.removeEventListener('abort', end)
      resolve({ inOrder: code === 0, how: `exit status ${code}: ${said.trim()}` })
    })
    return promise
  }
}
