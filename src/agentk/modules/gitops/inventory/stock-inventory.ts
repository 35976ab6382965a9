import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { maxObjects } from '../../../../proto/gitops/limits.ts'
import { ConfigMaps, type JsonApi } from './config-maps.ts'

/** Of cli-utils: names the inventory's id. */
const inventoryIdLabel = 'cli-utils.sigs.k8s.io/inventory-id'

/**
 * What the stock agent (13.8 to 17) has made of a project: to be read once, when its objects are taken over. It keeps
 * one ConfigMap; others with its label are not read, nor more than an agent's objects of it.
 *
 * @param of.namespace - the source's `default_namespace`
 * @param of.id - `<agent id>-<project id>`, also the value of its objects' owner annotation
 * @throws KasError UNREACHABLE with the server's status
 */
export async function stockInventory(
  api: JsonApi,
  of: { readonly namespace: string; readonly id: string },
  signal: AbortSignal,
): Promise<ObjectKey[]> {
  const map = await new ConfigMaps(api, of.namespace).first(`${inventoryIdLabel}=${of.id}`, signal)
  const keys = Object.keys(map?.data ?? {}).slice(0, maxObjects)
  return keys.flatMap((text) => stockKey(text) ?? [])
}

/**
 * `<namespace>_<name>_<group>_<kind>`, a `:` of the name written `__`.
 *
 * @returns undefined: it is none
 */
export function stockKey(text: string): ObjectKey | undefined {
  const [, namespace = '', escaped = '', group = '', kind = ''] = /^([^_]*)_(.+)_([^_]*)_([^_]+)$/.exec(text) ?? []
  const name = escaped.replaceAll('__', ':')
  return name === '' || name.includes('_') ? undefined : { group, kind, namespace, name }
}
