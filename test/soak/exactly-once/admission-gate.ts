import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { Authority } from '../../../dev/certificates.ts'
import type { Service } from '../../../src/lib/service.ts'

interface AdmissionReview {
  readonly request: {
    readonly uid: string
    /** a ConfigMap, or the options of an exec */
    readonly object: { readonly metadata?: { readonly name?: string }; readonly command?: readonly string[] }
  }
}

/** time that the API server waits for the webhook */
const timeoutSeconds = 20

/**
 * A validating webhook, which the API server calls before it creates an object or runs a command. It shows when a
 * request has reached the cluster, and can keep it there for a while. It allows every request.
 */
export class AdmissionGate implements Service {
  readonly #waiting = new Set<{ readonly prefix: string; readonly resolve: () => void; left: number }>()
  readonly #inside = new Set<string>()
  #closed: PromiseWithResolvers<void> | undefined
  #server: Server | undefined
  /** PEM */
  #authority = ''
  #port = 0

  async start(): Promise<void> {
    const authority = await Authority.create('admission gate')
    const { certificate, key } = await authority.issueServing({ dns: [], ip: ['127.0.0.1'] })
    const server = createServer({ cert: certificate, key }, (request, response) => {
      this.#serve(request, response).catch(() => response.destroy()) // its caller has left
    })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    this.#server = server
    this.#authority = authority.certificate
    this.#port = (server.address() as AddressInfo).port
  }

  async stop(): Promise<void> {
    this.open()
    this.#server?.close()
    this.#server?.closeAllConnections()
  }

  /** Returns the object that makes an API server call the webhook; only after its start. */
  configuration(namespace: string): object {
    const caBundle = Buffer.from(this.#authority).toString('base64')
    const core = { apiGroups: [''], apiVersions: ['v1'], scope: 'Namespaced' }
    return {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'ValidatingWebhookConfiguration',
      metadata: { name: 'gate' },
      webhooks: [
        {
          name: 'gate.kas.test',
          clientConfig: { url: `https://127.0.0.1:${this.#port}/`, caBundle },
          rules: [
            { ...core, operations: ['CREATE'], resources: ['configmaps'] },
            { ...core, operations: ['CONNECT'], resources: ['pods/exec'] },
          ],
          namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
          failurePolicy: 'Ignore', // carries out requests whose caller left
          sideEffects: 'None',
          timeoutSeconds,
          admissionReviewVersions: ['v1'],
        },
      ],
    }
  }

  /** Number of requests that came and are not answered yet. */
  get inside(): number {
    return this.#inside.size
  }

  /** Keeps requests from now on. */
  close(): void {
    this.#closed ??= Promise.withResolvers()
  }

  /** Lets the kept requests go on, and keeps no others. */
  open(): void {
    this.#closed?.resolve()
    this.#closed = undefined
  }

  /**
   * Resolves once so many requests have come from now on.
   *
   * @param prefix - beginning of their identities: an object's name, a command's last word
   */
  arrivals(prefix: string, count: number): Promise<void> {
    return new Promise((resolve) => this.#waiting.add({ prefix, resolve, left: count }))
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const review = JSON.parse(await text(request)) as AdmissionReview
    const { uid, object } = review.request
    const identity = object.metadata?.name ?? object.command?.at(-1) ?? ''
    this.#inside.add(uid)
    for (const waiting of this.#waiting) {
      if (!identity.startsWith(waiting.prefix)) continue
      waiting.left -= 1
      if (waiting.left > 0) continue
      this.#waiting.delete(waiting)
      waiting.resolve()
    }
    await this.#closed?.promise
    this.#inside.delete(uid)
    response.setHeader('content-type', 'application/json')
    const kind = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview' }
    response.end(JSON.stringify({ ...kind, response: { uid, allowed: true } }))
  }
}
