import { type ChildProcess, spawn } from 'node:child_process'
import { buildGoProgram } from './go-program.ts'
import type { TornDown } from './processes.ts'
import { patience } from './slowness.ts'

export { withoutGo } from './go-program.ts'

const waitTimeoutMs = 20_000
const stopTimeoutMs = 5_000

/** Builds the program unless its sources have been built before, and returns its path. */
export const buildAgentkGo = (): Promise<string> => buildGoProgram('agentk-go')

/** One line of the agent's output; `event` names its kind (see the `emit` calls of the program). */
export interface AgentkGoEvent {
  readonly event: string
  readonly [field: string]: unknown
}

export interface AgentkGoOptions {
  /** grpc, grpcs, ws or wss */
  readonly kasAddress: string
  readonly token: string
  /** more flags, as in main.go */
  readonly flags?: readonly string[]
}

/** A running agent in Go: its events so far, and those to come. */
export class AgentkGo {
  readonly events: AgentkGoEvent[] = []
  /** exit status; -1 when a signal ended it */
  readonly exited: Promise<number>
  readonly #child: ChildProcess
  readonly #watchers = new Set<() => void>()
  #unread = ''
  #stderr = ''

  private constructor(child: ChildProcess) {
    this.#child = child
    child.stdout?.setEncoding('utf8').on('data', (text: string) => this.#onText(text))
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text
    })
    this.exited = new Promise((resolve) => {
      child.once('close', (code) => {
        this.events.push({ event: 'exited', code })
        for (const watch of this.#watchers) watch()
        resolve(code ?? -1)
      })
    })
  }

  /** Starts the agent; it ends with the test, and also if this process dies, since its input ends then. */
  static async start(t: TornDown, options: AgentkGoOptions): Promise<AgentkGo> {
    const flags = ['--exit-with-stdin', `--kas-address=${options.kasAddress}`, ...(options.flags ?? [])]
    const child = spawn(await buildAgentkGo(), flags, {
      env: { PATH: process.env.PATH, AGENTK_TOKEN: options.token },
      stdio: 'pipe',
    })
    const agent = new AgentkGo(child)
    t.teardown(() => agent.kill())
    return agent
  }

  get pid(): number {
    return this.#child.pid as number
  }

  /** All events of one kind so far. */
  all(event: string): AgentkGoEvent[] {
    return this.events.filter((one) => one.event === event)
  }

  /**
   * Resolves with the first event of a kind that `matches`, past or to come.
   *
   * @param matches - a predicate, or fields that must be equal
   * @param options.from - number of events to skip, such as `agent.events.length` at some time
   * @throws Error after `options.timeoutMs` (default 20 s), or when the agent ended; the message contains its events
   */
  event(
    event: string,
    matches: Record<string, unknown> | ((event: AgentkGoEvent) => boolean) = {},
    options: { from?: number; timeoutMs?: number } = {},
  ): Promise<AgentkGoEvent> {
    const fits = typeof matches === 'function' ? matches : equalTo(matches)
    return this.until(
      () => this.events.slice(options.from ?? 0).find((one) => one.event === event && fits(one)),
      `${event} ${typeof matches === 'function' ? matches : JSON.stringify(matches)}`,
      options.timeoutMs,
    )
  }

  /** Calls `check` at each event until it returns a value. */
  until<T>(check: () => T | undefined | false, what: string, timeoutMs = waitTimeoutMs): Promise<T> {
    return new Promise((resolve, reject) => {
      const fail = (why: string) =>
        done(() => reject(new Error(`agentk-go: ${why}, waiting for ${what}:\n${this.#told}`)))
      const timer = setTimeout(() => fail('not in time'), patience(timeoutMs))
      const done = (then: () => void) => {
        clearTimeout(timer)
        this.#watchers.delete(look)
        then()
      }
      const look = () => {
        const found = check()
        if (found) done(() => resolve(found))
        else if (this.events.at(-1)?.event === 'exited') fail('it ended')
      }
      this.#watchers.add(look)
      look()
    })
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** Sends SIGTERM as Kubernetes does, and waits for running calls; kills the agent after 5 s. */
  async stop(): Promise<number> {
    this.signal('SIGTERM')
    const timer = setTimeout(() => this.signal('SIGKILL'), patience(stopTimeoutMs))
    const code = await this.exited
    clearTimeout(timer)
    return code
  }

  async kill(): Promise<void> {
    this.signal('SIGKILL')
    await this.exited
  }

  get #told(): string {
    return `${this.events.map((one) => JSON.stringify(one)).join('\n')}\n${this.#stderr}`
  }

  #onText(text: string): void {
    const lines = (this.#unread + text).split('\n')
    this.#unread = lines.pop() as string
    for (const line of lines) {
      this.events.push(JSON.parse(line))
      for (const watch of [...this.#watchers]) watch()
    }
  }
}

function equalTo(fields: Record<string, unknown>): (event: AgentkGoEvent) => boolean {
  return (event) => Object.entries(fields).every(([name, value]) => event[name] === value)
}
