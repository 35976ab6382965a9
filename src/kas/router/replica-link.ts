import { KasError } from '../../lib/errors.ts'
import type { Logger } from '../../lib/log.ts'
import { delay } from '../../lib/signals.ts'
import { type Call, noMetadata, type Reply } from '../../proto/call.ts'
import type { ClientSession, ClientStream } from '../../proto/grpc/client-session.ts'
import { KnownMessages } from '../../proto/known-messages.ts'
import { readOutcome, tunnelKey, withoutOwnKeys, writeHandOver } from './hand-over.ts'
import type { Offer } from './offer.ts'
import { defaultReachability, Reachability, type ReachabilityOptions } from './reachability.ts'

export interface ReplicaLinkComponents {
  /** a connection to the replica, which has proven that it is the one; throws a KasError */
  readonly dial: (signal: AbortSignal) => Promise<ClientSession>
  readonly now: () => number
  readonly random: () => number
  readonly log: Logger
  /** it became open, unreachable or reachable again */
  readonly onChange: () => void
  /** the replica says that it does not know us */
  readonly onUnknown: () => void
}

export interface ReplicaLinkOptions {
  readonly reachability: ReachabilityOptions
  /** between tries to connect, doubled from the first to the last, with jitter. ms */
  readonly redialMs: readonly [first: number, last: number]
}

export const defaultReplicaLink: ReplicaLinkOptions = { reachability: defaultReachability, redialMs: [50, 1000] }

export interface AskOptions {
  /** how long the holder may wait for a tunnel; 0: it says at once. ms */
  readonly waitMs: number
  /** the messages follow at once: for safe calls alone, which two replicas may get */
  readonly eager: boolean
  /** the answer is not wanted any more */
  readonly signal: AbortSignal
}

/** The one HTTP/2 connection from this replica to another: calls are handed over on it, PINGs tell if it lives. */
export class ReplicaLink {
  readonly #components: ReplicaLinkComponents
  readonly #options: ReplicaLinkOptions
  readonly #closing = new AbortController()
  #reachability: Reachability
  #session: ClientSession | undefined
  /** of safe calls, handed over, of whose replies nothing has come */
  readonly #unanswered = new Set<ClientStream>()
  #bytesRead = 0
  #calls = 0
  #rounds: NodeJS.Timeout | undefined

  constructor(components: ReplicaLinkComponents, options: ReplicaLinkOptions = defaultReplicaLink) {
    this.#components = components
    this.#options = options
    this.#reachability = new Reachability(options.reachability)
  }

  /** Of ours, in flight. */
  get calls(): number {
    return this.#calls
  }

  get session(): ClientSession | undefined {
    const session = this.#session
    return session && !session.draining ? session : undefined
  }

  /** `down`: not connected. */
  get reach(): 'reachable' | 'suspect' | 'unreachable' | 'down' {
    if (!this.session) return 'down'
    if (this.#reachability.isUnreachable) return 'unreachable'
    return this.#reachability.isSuspect(this.#components.now()) ? 'suspect' : 'reachable'
  }

  /** Connects, and again whenever the connection ends, until `close`. */
  open(): void {
    void this.#run()
    this.#rounds = setInterval(() => this.#round(), this.#options.reachability.roundMs)
  }

  /** Ends the connection and the calls on it. */
  close(): void {
    clearInterval(this.#rounds)
    this.#closing.abort(new KasError({ code: 'TUNNEL_LOST', delivery: 'none' }))
    this.#session?.destroy()
  }

  /**
   * Asks for a tunnel that serves the call.
   *
   * @returns undefined: it has none, or cannot be asked; never rejects
   */
  async ask(call: Call, { waitMs, eager, signal }: AskOptions): Promise<Offer | undefined> {
    const { session } = this
    if (!session || signal.aborted) return undefined
    const ready = Promise.withResolvers<boolean>()
    const stream = session.open({
      method: call.method,
      metadata: writeHandOver({ agentId: call.agentId, waitMs }, call.metadata),
      onInterim: (metadata) => {
        if (metadata[tunnelKey]?.[0] === 'ready') ready.resolve(true)
      },
    })
    this.#calls++
    const giveUp = () => stream.cancel(KasError.from(signal.reason))
    signal.addEventListener('abort', giveUp, { once: true })
    void stream.done.then(({ trailers }) => {
      this.#calls--
      if (trailers[tunnelKey]?.[0] === 'unknown') this.#components.onUnknown()
      ready.resolve(false)
    })
    if (eager) void send(stream, call)
    const isReady = await ready.promise
    signal.removeEventListener('abort', giveUp)
    if (!isReady) return undefined
    return {
      forward: (theCall) => {
        if (!eager) void send(stream, theCall)
        if (theCall.safety === 'safe') this.#untilAnswered(stream)
        return reply(stream, theCall)
      },
      giveBack: () => stream.cancel(),
    }
  }

  async #run(): Promise<void> {
    const { dial, log, onChange, random } = this.#components
    const { signal } = this.#closing
    const [firstMs, lastMs] = this.#options.redialMs
    let pauseMs = firstMs
    while (!signal.aborted) {
      try {
        this.#session = await dial(signal)
        this.#reachability = new Reachability(this.#options.reachability)
        this.#bytesRead = 0
        pauseMs = firstMs
        onChange()
        await this.#session.closed
        this.#session = undefined
        onChange()
      } catch (error) {
        if (!signal.aborted) log.debug({ error }, 'A replica could not be reached')
      }
      await delay(pauseMs * (0.5 + random()), signal).catch(() => undefined) // closing ends the loop
      pauseMs = Math.min(lastMs, pauseMs * 2)
    }
  }

  #round(): void {
    const session = this.#session
    if (!session) return
    const was = this.#reachability.isUnreachable
    if (session.bytesRead !== this.#bytesRead) this.#reachability.heard()
    this.#bytesRead = session.bytesRead
    if (this.#reachability.round(this.#components.now())) {
      session.ping().then(
        () => this.#heard(),
        () => undefined, // the connection ended, which `#run` sees
      )
    }
    if (was === this.#reachability.isUnreachable) return
    this.#components.onChange()
    if (!was) this.#loseUnanswered()
  }

  #untilAnswered(stream: ClientStream): void {
    this.#unanswered.add(stream)
    void stream.metadata.then(() => this.#unanswered.delete(stream))
  }

  /** Safe calls need not wait until a silent replica speaks again, or its connection ends: they go another way. */
  #loseUnanswered(): void {
    for (const stream of this.#unanswered) stream.cancel(new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' }))
  }

  #heard(): void {
    const was = this.#reachability.isUnreachable
    this.#reachability.heard()
    if (was) this.#components.onChange()
  }
}

/** Caller to holder. */
async function send(stream: ClientStream, { messages }: Call): Promise<void> {
  try {
    if (messages instanceof KnownMessages) for (const message of messages.all) void stream.send(message)
    else {
      for await (const message of messages) {
        const full = stream.send(message)
        if (full) await full
      }
    }
    stream.end()
  } catch (cause) {
    stream.cancel(new KasError({ code: 'CANCELLED', detail: 'read from incoming stream' }, { cause }))
  }
}

const ready = Promise.resolve()

function reply(stream: ClientStream, { signal }: Call): Reply {
  const leave = () => stream.cancel(KasError.from(signal.reason))
  if (signal.aborted) leave()
  else signal.addEventListener('abort', leave, { once: true })
  const done = stream.done.then((outcome) => {
    signal.removeEventListener('abort', leave)
    return readOutcome(outcome)
  })
  const metadata = stream.metadata.then((own) => (own === noMetadata ? own : withoutOwnKeys(own)))
  return { ready, metadata, messages: stream.messages, done }
}
