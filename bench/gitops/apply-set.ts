import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ApiClient } from '../../dev/control-plane/api-client.ts'

const group = 'bench.example.com'
const applySet = 'applyset.kubernetes.io'
const plural = 'applysets'
const name = 'bench'
/** interval of checks of another process. ms */
const askAgainMs = 100
const timeoutMs = 30_000

/**
 * Creates the object in which kubectl keeps a set that it may prune, across namespaces. It must be cluster-scoped, and
 * of a marked kind.
 *
 * @returns its name for `--applyset`
 */
export async function createApplySet(admin: ApiClient): Promise<string> {
  const names = { plural, singular: 'applyset', kind: 'ApplySet', listKind: 'ApplySetList' }
  const schema = { openAPIV3Schema: { type: 'object' } }
  await admin.create('/apis/apiextensions.k8s.io/v1/customresourcedefinitions', {
    metadata: { name: `${plural}.${group}`, labels: { [`${applySet}/is-parent-type`]: 'true' } },
    spec: { group, names, scope: 'Cluster', versions: [{ name: 'v1', served: true, storage: true, schema }] },
  })
  const path = `/apis/${group}/v1/${plural}`
  const late = AbortSignal.timeout(timeoutMs)
  while ((await admin.request(path)).status !== 200) await sleep(askAgainMs, undefined, { signal: late })
  const id = createHash('sha256').update(`${name}..${names.kind}.${group}`).digest('base64url')
  const labels = { [`${applySet}/id`]: `applyset-${id}-v1` }
  const annotations = { [`${applySet}/tooling`]: 'kubectl/v1', [`${applySet}/contains-group-kinds`]: '' }
  await admin.create(path, { apiVersion: `${group}/v1`, kind: names.kind, metadata: { name, labels, annotations } })
  return `${plural}.${group}/${name}`
}
