import { hash as digestOf } from 'node:crypto'
import { type BundledPackage, idOf } from './bundled-packages.ts'

export interface Component {
  readonly type: 'application' | 'container' | 'library'
  readonly name: string
  readonly version: string
  /** its package URL, which is also its reference */
  readonly purl: string
  /** licence, as an SPDX identifier or expression */
  readonly license?: string
  readonly hash?: { readonly alg: 'SHA-256' | 'SHA-512'; readonly content: string }
  /** package URLs of its dependencies */
  readonly dependsOn?: readonly string[]
}

export interface SbomInput {
  /** the package or image that the list describes */
  readonly subject: Component
  readonly commit: string
  readonly components: readonly Component[]
}

/**
 * Returns a CycloneDX 1.5 list. It has no random part and no time: equal input gives equal bytes.
 *
 * @see https://cyclonedx.org/docs/1.5/json/
 */
export function sbomOf({ subject, commit, components }: SbomInput): string {
  const content = {
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: { component: { ...entryOf(subject), properties: [{ name: 'commit', value: commit }] } },
    components: components.map(entryOf),
    dependencies: [subject, ...components].map(({ purl, dependsOn = [] }) => ({
      ref: purl,
      dependsOn,
    })),
  }
  return `${JSON.stringify({ $schema: schema, serialNumber: serialOf(JSON.stringify(content)), ...content }, null, 1)}\n`
}

const schema = 'http://cyclonedx.org/schema/bom-1.5.schema.json'

/** Returns a version 8 UUID of the content (RFC 9562 5.8). */
function serialOf(content: string): string {
  const digits = digestOf('sha256', content)
  const [a, b, c, d, e] = [
    [0, 8],
    [8, 12],
    [13, 16],
    [17, 20],
    [20, 32],
  ].map(([from, to]) => digits.slice(from, to))
  return `urn:uuid:${a}-${b}-8${c}-8${d}-${e}`
}

function entryOf({ type, name, version, purl, license, hash }: Component): object {
  const isExpression = license?.includes(' ')
  return {
    type,
    'bom-ref': purl,
    name,
    version,
    purl,
    ...(license && { licenses: [isExpression ? { expression: license } : { license: { id: license } }] }),
    ...(hash && { hashes: [hash] }),
  }
}

/** @param integrity - value of a lock file: `sha512-…` */
export function hashOf(integrity: string): NonNullable<Component['hash']> {
  const content = Buffer.from(integrity.replace('sha512-', ''), 'base64').toString('hex')
  return { alg: 'SHA-512', content }
}

/** @param id - `name@version` of npm */
export const purlOf = (id: string): string => `pkg:npm/${id.replace('@', (at, i) => (i === 0 ? '%40' : at))}`

export function componentOf(one: BundledPackage): Component {
  const { name, version, license, integrity, dependsOn } = one
  const own = { name, version, purl: purlOf(idOf(one)), license, hash: hashOf(integrity) }
  return { type: 'library', ...own, dependsOn: dependsOn.map(purlOf) }
}
