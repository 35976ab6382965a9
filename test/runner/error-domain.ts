import { AsyncLocalStorage, AsyncResource, executionAsyncResource } from 'node:async_hooks'

type OnError = (error: unknown, event: string) => void

/** of what runs */
const current = new AsyncLocalStorage<Domain>()
/** of what no test has begun */
let outermost: Domain | undefined

/**
 * In the place of async-hook-domain, by which tap knows whose an error is that nobody catches: a test's is what it has
 * begun, however much later it fails. That one follows each asynchronous step by hooks, which is a third of the CPU time
 * of tests with many of them; Node carries a store along for next to nothing.
 */
export class Domain {
  /** read by tap */
  readonly onerror: OnError
  readonly #parent: Domain | undefined
  #isDestroyed = false

  constructor(onerror: OnError) {
    this.onerror = onerror
    this.#parent = current.getStore() ?? outermost
    outermost ??= this
    const resource = executionAsyncResource() // in which tap runs a test
    if (resource instanceof AsyncResource) {
      resource.runInAsyncScope = (run, owner, ...args) =>
        AsyncResource.prototype.runInAsyncScope.call(resource, () =>
          current.run(this, () => run.apply(owner as never, args)),
        ) as never
    }
    listen()
  }

  /** What has begun in it is its parent's from now on. */
  destroy(): void {
    this.#isDestroyed = true
  }

  /** The nearest one that is not destroyed. */
  get living(): Domain | undefined {
    return this.#isDestroyed ? this.#parent?.living : this
  }
}

/** @returns whether a test has taken it */
function handle(error: unknown, event: string): boolean {
  // whoever else has a handler is asked by Node
  if (process.hasUncaughtExceptionCaptureCallback() || process.listenerCount('uncaughtException') > 0) return false
  const domain = (current.getStore() ?? outermost)?.living
  if (!domain) return false
  try {
    domain.onerror(error, event)
  } catch (thrown) {
    domain.destroy()
    if (!handle(thrown, event)) throw thrown
  }
  return true
}

let isListening = false

function listen(): void {
  if (isListening) return
  isListening = true
  process.on('uncaughtExceptionMonitor', (error, origin) => {
    if (!handle(error, origin)) return
    // it is a test's now: the process goes on
    process.setUncaughtExceptionCaptureCallback(() => process.setUncaughtExceptionCaptureCallback(null))
  })
  const emit = process.emit as (event: string, ...args: unknown[]) => boolean
  process.emit = ((event: string, ...args: unknown[]) =>
    event === 'unhandledRejection' && process.listenerCount(event) === 0
      ? handle(args[0], event)
      : emit.call(process, event, ...args)) as typeof process.emit
}
