import { field } from '../../../../kubernetes/object.ts'

/** Fields of a Pod's specification, at any depth, that name a ConfigMap or a Secret, and the place of the name. */
const references: Readonly<Record<string, readonly [kind: 'ConfigMap' | 'Secret', name: string]>> = {
  configMap: ['ConfigMap', 'name'],
  configMapRef: ['ConfigMap', 'name'],
  configMapKeyRef: ['ConfigMap', 'name'],
  secretRef: ['Secret', 'name'],
  secretKeyRef: ['Secret', 'name'],
  imagePullSecrets: ['Secret', 'name'],
  nodePublishSecretRef: ['Secret', 'name'],
}

/**
 * Returns the ConfigMaps and Secrets that a Pod's specification names, as `ConfigMap/name`. It reads variables,
 * volumes (also projected ones) and pull secrets, for all types of containers.
 */
export function configurationIn(spec: unknown): ReadonlySet<string> {
  const found = new Set<string>()
  const take = (kind: string, name: unknown) => typeof name === 'string' && name !== '' && found.add(`${kind}/${name}`)
  const left: unknown[] = [spec]
  while (left.length > 0) {
    const value = left.pop()
    if (typeof value !== 'object' || value === null) continue
    for (const [name, child] of Object.entries(value)) {
      left.push(child)
      const [kind, place] = references[name] ?? []
      if (kind && place) for (const one of Array.isArray(child) ? child : [child]) take(kind, field(one, place))
      if (name === 'secretName') take('Secret', child) // in a volume of any type
      if (name === 'secret') take('Secret', field(child, 'name')) // in a projected volume
    }
  }
  return found
}
