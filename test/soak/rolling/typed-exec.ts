import { once } from 'node:events'
import { WebSocket } from 'ws'
import { abortable, delay } from '../../../src/lib/signals.ts'
import { type KubeOptions, trustOf } from '../kube.ts'
import type { End } from './ends.ts'

/** channels of `v5.channel.k8s.io`: the first byte of each message */
const channel = { stdin: 0, stdout: 1 } as const
const typeEveryMs = 1000
/** limit for the echo of a line. ms */
const echoTimeoutMs = 10_000
const retryMs = 200
/** code of a WebSocket's close without a close frame */
const abnormal = 1006

export interface TypedExecOptions {
  readonly namespace: string
  readonly pod: string
  /** time after which its user ends it; absent: it goes on */
  readonly lifeMs?: number
}

/**
 * `cat` in a pod, which gets a line of input each second. It begins again when it ends, or when its user has ended it.
 */
export class TypedExec {
  readonly ends: End[] = []
  /** failed begins, and echoes that differ from the input */
  readonly failures: string[] = []
  /** lines that came back */
  echoes = 0
  /** time of the last echo, as `performance.now()` */
  echoedAt = 0
  /** execs that their user ended */
  completed = 0
  readonly #access: KubeOptions
  readonly #url: URL
  readonly #lifeMs: number | undefined
  readonly #stop = new AbortController()
  readonly #echoed = Promise.withResolvers<void>()
  #run: Promise<void> | undefined

  constructor(access: KubeOptions, { namespace, pod, lifeMs }: TypedExecOptions) {
    this.#access = access
    this.#lifeMs = lifeMs
    this.#url = new URL(`/api/v1/namespaces/${namespace}/pods/${pod}/exec?command=cat`, access.server)
    for (const name of ['stdin', 'stdout']) this.#url.searchParams.set(name, 'true')
    this.#url.protocol = 'wss:'
  }

  /** Resolves once the first line has come back. @throws the signal's reason */
  async start(signal: AbortSignal): Promise<void> {
    this.#run = this.#follow()
    await abortable(this.#echoed.promise, signal)
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#run
  }

  async #follow(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        await this.#one()
      } catch (error) {
        if (this.#stop.signal.aborted) return
        this.failures.push(`an exec did not begin: ${(error as Error).message}`)
        await delay(retryMs)
      }
    }
  }

  async #one(): Promise<void> {
    const headers = { authorization: `Bearer ${this.#access.credential}` }
    const options = { ...trustOf(this.#access), headers, perMessageDeflate: false }
    const socket = new WebSocket(this.#url, ['v5.channel.k8s.io'], options)
    const closed = new Promise<number>((resolve) => socket.once('close', resolve))
    const end = () => socket.terminate()
    this.#stop.signal.addEventListener('abort', end, { once: true })
    try {
      await once(socket, 'open')
      socket.on('error', () => undefined) // close reports it
      const typing = this.#type(socket)
      let isEnough = false
      const leave = () => {
        isEnough = true
        socket.close()
      }
      const life = this.#lifeMs === undefined ? undefined : setTimeout(leave, this.#lifeMs)
      const code = await closed
      clearInterval(typing)
      clearTimeout(life)
      if (isEnough) this.completed++
      else if (!this.#stop.signal.aborted) this.ends.push({ at: performance.now(), inOrder: code !== abnormal })
    } finally {
      this.#stop.signal.removeEventListener('abort', end)
    }
  }

  #type(socket: WebSocket): NodeJS.Timeout {
    let typed = ''
    let lines = 0
    let back = ''
    let waitsSince: number | undefined
    socket.on('message', (data: Buffer) => {
      if (data[0] !== channel.stdout || data.length === 1) return
      back += data.subarray(1).toString()
      if (!typed.startsWith(back)) return this.#fail(socket, `gave back ${JSON.stringify(back.slice(-100))}`)
      if (back !== typed) return
      waitsSince = undefined
      this.echoes++
      this.echoedAt = performance.now()
      this.#echoed.resolve()
    })
    const type = () => {
      if (socket.readyState !== socket.OPEN) return
      if (waitsSince !== undefined && performance.now() - waitsSince > echoTimeoutMs) {
        return this.#fail(socket, `gave nothing back for ${echoTimeoutMs} ms`)
      }
      const line = `line ${++lines}\n`
      typed += line
      waitsSince ??= performance.now()
      socket.send(Buffer.concat([Buffer.of(channel.stdin), Buffer.from(line)]))
    }
    type()
    return setInterval(type, typeEveryMs)
  }

  #fail(socket: WebSocket, what: string): void {
    this.failures.push(`an exec ${what}`)
    socket.terminate()
  }
}
