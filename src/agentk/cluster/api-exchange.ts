import type { Dispatcher } from 'undici'
import { safetyOf } from '../../call/safety.ts'
import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import { type Absence, DialPatience } from './absence.ts'
import type { ApiRequest, ApiResponseHandler } from './api-request.ts'
import type { ClusterAccess } from './cluster-access.ts'

/** The part of ApiClient that an exchange uses. */
interface Client {
  readonly access: Pick<ClusterAccess, 'version' | 'refresh'>
  readonly absence: Absence
  readonly clock: Clock
  dispatch(request: ApiRequest, handler: Dispatcher.DispatchHandler): void
}

/** Limit of repeats of a safe request whose connection ended before the answer. */
const maxRepeats = 3

/**
 * One request and its answer, over as many attempts as can do no harm:
 * - a request that was never sent (the dial failed) waits for the server, whatever its method;
 * - a safe request without a body is sent again if its connection ended before the answer, but not one to a pod;
 * - a request without a body that got 401 is sent again, once, if the token file has changed since it was sent.
 *
 * @see doc/reference/kubernetes-api.md
 */
export class ApiExchange implements Dispatcher.DispatchHandler {
  readonly #client: Client
  readonly #request: ApiRequest
  readonly #handler: ApiResponseHandler
  #controller: Dispatcher.DispatchController | undefined
  #state: 'dialling' | 'sent' | 'discarding' | 'answered' | 'ended' = 'dialling'
  #repeats = 0
  #refused = false
  /** version of the credentials that were sent */
  #version = 0
  /** set while the server is away */
  #patience: DialPatience | undefined
  #stopWaiting: (() => void) | undefined
  #abortReason: unknown
  #aborted = false

  constructor(client: Client, request: ApiRequest, handler: ApiResponseHandler) {
    this.#client = client
    this.#request = request
    this.#handler = handler
  }

  /** @internal Sends the request. If the server is dead, it is asked first. */
  start(): void {
    const { absence } = this.#client
    if (!absence.isLong) this.#dispatch()
    else absence.probe().then(this.#dispatch, (error: unknown) => this.#fail(error))
  }

  readonly #dispatch = (): void => {
    if (this.#state === 'ended') return
    this.#state = 'dialling'
    this.#controller = undefined
    try {
      this.#client.dispatch(this.#request, this)
      this.#version = this.#client.access.version
    } catch (error) {
      this.#fail(error) // a header or path that HTTP does not allow, or a token file that cannot be read
    }
  }

  /** Ends the request now, unless it has ended, and passes `reason` to `onError`. */
  abort(reason: unknown): void {
    if (this.#state === 'ended' || this.#aborted) return
    this.#aborted = true
    this.#abortReason = reason
    this.#stopWaiting?.()
    this.#controller?.abort(reason instanceof Error ? reason : new Error('aborted'))
    this.#fail(reason)
  }

  pause(): void {
    this.#controller?.pause()
  }

  resume(): void {
    this.#controller?.resume()
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#aborted) controller.abort(this.#abortReason instanceof Error ? this.#abortReason : new Error('aborted'))
    else {
      this.#state = 'sent'
      this.#patience = undefined
    }
  }

  onResponseStart(controller: Dispatcher.DispatchController, statusCode: number, _: unknown, statusText = ''): void {
    this.#client.absence.reached()
    if (statusCode < 200 || this.#state === 'ended') return
    if (statusCode === 401 && !this.#request.body && !this.#refused && this.#hasNewerCredentials()) {
      this.#refused = true
      this.#state = 'discarding'
      return
    }
    this.#state = 'answered'
    this.#handler.onHead(statusCode, statusText, controller.rawHeaders as Buffer[])
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#state === 'answered') this.#handler.onData(chunk)
  }

  onResponseEnd(): void {
    if (this.#state === 'discarding') this.#dispatch()
    else if (this.#state === 'answered') {
      this.#state = 'ended'
      this.#handler.onEnd()
    }
  }

  onResponseError(_: Dispatcher.DispatchController | undefined, error: Error): void {
    if (this.#state === 'ended') return
    if (this.#state === 'dialling') this.#dialFailed(error)
    else if (this.#state !== 'answered' && !(error instanceof KasError) && this.#mayRepeat()) {
      this.#repeats += 1
      this.#dispatch()
    } else this.#fail(error)
  }

  #mayRepeat(): boolean {
    const { method, path, body } = this.#request
    const [resource = ''] = path.split('?', 1)
    const safety = safetyOf({ method, path: resource, upgrade: false, body: body !== undefined })
    return this.#repeats < maxRepeats && safety === 'safe'
  }

  /** Compares with the version that this request has sent: another request may have read the changed file before. */
  #hasNewerCredentials(): boolean {
    const { access } = this.#client
    access.refresh()
    return access.version !== this.#version
  }

  #dialFailed(error: Error): void {
    const { absence, clock } = this.#client
    this.#patience ??= new DialPatience(absence)
    const waitMs = this.#patience.next(error)
    if (waitMs === undefined) this.#fail(absence.explain(error))
    else this.#stopWaiting = clock.after(waitMs, this.#dispatch)
  }

  #fail(error: unknown): void {
    if (this.#state === 'ended') return
    this.#state = 'ended'
    this.#handler.onError(error)
  }
}
