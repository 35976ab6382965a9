import { stringify } from 'yaml'
import { configurationFile } from '../drift/layout.ts'

/** ConfigMaps of the previewed source, and of one of its files */
const [maps, mapsOfFile] = [1000, 100]
/** objects of a wide change: as many as an agent may have, less those of the other source */
const wideMaps = 9000
/** bytes of a value in a wide change: all files together have some 18 MB */
const wideBytes = 1800
/** bytes of one file of nested lists: below the limit of a file */
const nestedBytes = 4 * 1024 * 1024
const nestedFiles = 4

/**
 * Contents of a preview. `change`: five changed objects of 1,000. `wide`: 9,000 objects, none of which is in the cluster.
 * `yaml`: nested lists and aliases. `tar`: empty files without end.
 */
export const kinds = ['change', 'wide', 'yaml', 'tar'] as const
export type Kind = (typeof kinds)[number]

/** id of the previewed source */
export const previewedSource = '42-1-tenant'
export const namespace = 'tenant'

export function configuration(): Record<string, string> {
  return configurationFile([
    { name: 'tenant', paths: [{ glob: 'tenant/**' }] },
    { name: 'other', paths: [{ glob: 'other/**' }] },
  ])
}

/** Returns files of the previewed source, by path. */
export function filesOf(kind: Exclude<Kind, 'tar'> | 'git'): Record<string, string> {
  if (kind === 'yaml') return nested()
  const count = kind === 'wide' ? wideMaps : maps
  const value = (i: number) => {
    if (kind === 'wide') return 'x'.repeat(wideBytes)
    return kind === 'change' && i % (maps / 5) === 0 ? 'another value' : 'a value'
  }
  const prefix = kind === 'wide' ? 'wide' : 'map'
  const all = Array.from({ length: count }, (_, i) =>
    stringify({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: `${prefix}-${i}`, namespace },
      data: { value: value(i) },
    }),
  )
  const files = Array.from({ length: Math.ceil(count / mapsOfFile) }, (_, i) => [
    `tenant/maps-${i}.yaml`,
    all.slice(i * mapsOfFile, (i + 1) * mapsOfFile).join('---\n'),
  ])
  return Object.fromEntries(files)
}

/** Returns files that take long to read: lists in lists, and aliases of aliases. */
function nested(): Record<string, string> {
  const list = `a: ${'[['.repeat(20)}1${']]'.repeat(20)}\n`
  const deep = list.repeat(Math.floor(nestedBytes / list.length)).replace(/^a/gm, () => `a${count++}`)
  const laughs = ['a0: &a0 [x, x, x, x, x, x, x, x, x]']
  for (let i = 1; i < 12; i++)
    laughs.push(
      `a${i}: &a${i} [${Array(9)
        .fill(`*a${i - 1}`)
        .join(', ')}]`,
    )
  const files = Array.from({ length: nestedFiles - 1 }, (_, i) => [`tenant/deep-${i}.yaml`, deep])
  return { 'tenant/laughs.yaml': laughs.join('\n'), ...Object.fromEntries(files) }
}

let count = 0
