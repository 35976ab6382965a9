import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import { Authority } from '../../dev/certificates.ts'

interface AdmissionReview {
  readonly request: { readonly uid: string; readonly object: unknown; readonly oldObject: unknown }
}

/** Label by which an object asks for the webhook: `deny` or `garbage` for writes, `keep` for its deletion. */
export const askLabel = 'quoting-webhook'

/**
 * Starts a webhook that refuses what it is asked about, and quotes the object, new and old, in each part of its answer.
 * With `garbage` it gives no verdict.
 *
 * @returns the configuration by which an API server calls it for Secrets of a namespace
 */
export async function startQuotingWebhook(t: Pick<Test, 'teardown'>, namespace: string): Promise<object> {
  const authority = await Authority.create('quoting webhook')
  const { certificate: cert, key } = await authority.issueServing({ dns: [], ip: ['127.0.0.1'] })
  const server = createServer({ cert, key }, async (request, response) => {
    const { uid, object, oldObject } = (JSON.parse(await text(request)) as AdmissionReview).request
    const quoted = JSON.stringify({ object, oldObject })
    if (request.url?.startsWith('/garbage')) return void response.writeHead(500).end(quoted)
    const keys = Object.keys((object as { data?: object } | null)?.data ?? {})
    const causes = keys.map((name) => ({ field: `data.${name}`, reason: 'FieldValueInvalid', message: quoted }))
    const status = { code: 422, reason: 'Invalid', message: quoted, details: { causes } }
    const kind = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview' }
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ ...kind, response: { uid, allowed: false, status } }))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const caBundle = Buffer.from(authority.certificate).toString('base64')
  const webhook = (ask: string, operations: readonly string[]) => ({
    name: `${ask}.kas.test`,
    clientConfig: { url: `https://127.0.0.1:${port}/${ask}`, caBundle },
    rules: [{ apiGroups: [''], apiVersions: ['v1'], scope: 'Namespaced', resources: ['secrets'], operations }],
    namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
    objectSelector: { matchLabels: { [askLabel]: ask } },
    failurePolicy: 'Fail',
    sideEffects: 'None',
    admissionReviewVersions: ['v1'],
  })
  return {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingWebhookConfiguration',
    metadata: { name: 'quoting' },
    webhooks: [
      webhook('deny', ['CREATE', 'UPDATE']),
      webhook('garbage', ['CREATE', 'UPDATE']),
      webhook('keep', ['DELETE']),
    ],
  }
}
