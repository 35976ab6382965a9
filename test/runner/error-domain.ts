import { AsyncLocalStorage, AsyncResource, executionAsyncResource } from 'node:async_hooks'

type OnError = (error: unknown, event: string) => void

/** domain of the running code */
const current = new AsyncLocalStorage<Domain>()
/** domain of code that no test has begun */
let outermost: Domain | undefined

/**
 * Replaces async-hook-domain, by which tap finds the test of an uncaught error: the test that began the failing work.
 * The package uses a hook for each asynchronous step, up to a third of the CPU time. A store of Node costs almost
 * nothing.
 */
export class Domain {
  /** tap reads it */
  readonly onerror: OnError
  readonly #parent: Domain | undefined
  #isDestroyed = false

  constructor(onerror: OnError) {
    this.onerror = onerror
    this.#parent = current.getStore() ?? outermost
    outermost ??= this
    const resource = executionAsyncResource() // the resource in which tap runs a test
    if (resource instanceof AsyncResource) {
      resource.runInAsyncScope = (run, owner, ...args) =>
        AsyncResource.prototype.runInAsyncScope.call(resource, () =>
          current.run(this, () => run.apply(owner as never, args)),
        ) as never
    }
    listen()
  }

  /** Gives work that began in this domain to the parent. */
  destroy(): void {
    this.#isDestroyed = true
  }

  /** Returns the nearest domain that is not destroyed. */
  get living(): Domain | undefined {
    return this.#isDestroyed ? this.#parent?.living : this
  }
}

/** @returns true if a test has taken the error */
function handle(error: unknown, event: string): boolean {
  // Node calls any other handler itself
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
    // a test has taken the error, so the process continues
    process.setUncaughtExceptionCaptureCallback(() => process.setUncaughtExceptionCaptureCallback(null))
  })
  const emit = process.emit as (event: string, ...args: unknown[]) => boolean
  process.emit = ((event: string, ...args: unknown[]) =>
    event === 'unhandledRejection' && process.listenerCount(event) === 0
      ? handle(args[0], event)
      : emit.call(process, event, ...args)) as typeof process.emit
}
