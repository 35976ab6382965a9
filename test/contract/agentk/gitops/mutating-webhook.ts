import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import type { Test } from 'tap'
import { Authority } from '../../../../dev/certificates.ts'
import { type Ground, keyOf } from './ground.ts'

export interface JsonPatch {
  readonly op: 'add' | 'replace' | 'remove'
  readonly path: string
  readonly value?: unknown
}

/** @returns the changes that a webhook makes to an object, or why it refuses it */
export type Mutation = (
  // biome-ignore lint/suspicious/noExplicitAny: the shape is the API server's
  object: any,
  of: { readonly isDryRun: boolean },
) => readonly JsonPatch[] | { readonly refusal: string }

/**
 * Serves a webhook that changes or refuses objects of one resource, also in dry runs, and registers it.
 *
 * @param resource - plural in the group
 * @param group - default: apps
 * @returns function that removes it
 */
export async function startMutatingWebhook(
  t: Pick<Test, 'teardown'>,
  ground: Ground,
  {
    name,
    group = 'apps',
    resource,
    mutate,
  }: { readonly name: string; readonly group?: string; readonly resource: string; readonly mutate: Mutation },
): Promise<() => Promise<void>> {
  const authority = await Authority.create(name)
  const { certificate: cert, key } = await authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
  const server = createServer({ cert, key }, async (request, response) => {
    // biome-ignore lint/suspicious/noExplicitAny: the shape is the API server's
    const { apiVersion, kind, request: asked } = (await json(request)) as any
    const found = mutate(asked.object, { isDryRun: asked.dryRun === true })
    const patch = Buffer.from(JSON.stringify(found)).toString('base64')
    const answer =
      'refusal' in found
        ? { uid: asked.uid, allowed: false, status: { code: 400, message: found.refusal } }
        : { uid: asked.uid, allowed: true, patchType: 'JSONPatch', patch }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ apiVersion, kind, response: answer }))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const hook = keyOf('MutatingWebhookConfiguration', name, '', 'admissionregistration.k8s.io')
  await ground.create(hook, {
    metadata: { name },
    webhooks: [
      {
        name: `${name}.example.com`,
        admissionReviewVersions: ['v1'],
        sideEffects: 'None',
        clientConfig: {
          url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/`,
          caBundle: Buffer.from(authority.certificate).toString('base64'),
        },
        rules: [{ apiGroups: [group], apiVersions: ['v1'], operations: ['CREATE', 'UPDATE'], resources: [resource] }],
      },
    ],
  })
  const remove = async () => {
    await ground.client.json('DELETE', ground.path(hook))
  }
  t.teardown(remove) // a test that fails leaves none to those after it
  return remove
}
