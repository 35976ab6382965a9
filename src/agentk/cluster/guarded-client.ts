import type { buildConnector, Dispatcher } from 'undici'
import Client from 'undici/lib/dispatcher/client.js'
import { HeadGuard } from './head-guard.ts'

/** One connection at a time, one request at a time: the heads of its answers are counted before they are parsed. */
export class GuardedClient extends Client {
  readonly #guard: HeadGuard

  constructor(origin: URL, options: Client.Options & { connect: buildConnector.connector }) {
    const guard = new HeadGuard()
    const connect: buildConnector.connector = (target, done) =>
      options.connect(target, (...[error, socket]) => {
        if (error) return done(error, null)
        guard.watch(socket)
        done(null, socket)
      })
    super(origin, { ...options, connect })
    this.#guard = guard
  }

  /** The pool hands over a request only when the answer before has been read to its end. */
  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    this.#guard.expect()
    return super.dispatch(options, handler)
  }
}
