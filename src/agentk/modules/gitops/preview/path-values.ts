/** Keys that name the items of a list in Kubernetes' own kinds: their values are names, numbers and types. */
const knownNames: ReadonlySet<string> = new Set([
  'name',
  'namespace',
  'kind',
  'uid',
  'type',
  'ip',
  'port',
  'containerPort',
  'protocol',
  'mountPath',
  'devicePath',
  'topologyKey',
  'whenUnsatisfiable',
])

/** `[="x"`, `[token="x"`, `,port=80`: the end of the text may have cut a value. */
const item = /([[,])([^[\],="]*)=("(?:[^"\\]|\\.)*(?:"|\\?$)|[^,\]]*)/g

/**
 * Returns the text of a path, or one with paths, without the values of items: `.spec.finalizers[=…]`,
 * `.spec.users[token=…]`. Keys that name items in Kubernetes' own kinds stay: `.spec.containers[name="app"]`.
 */
export function pathWithoutValues(text: string): string {
  return text.replaceAll(item, (whole, begin: string, name: string) =>
    knownNames.has(name) ? whole : `${begin}${name}=…`,
  )
}
