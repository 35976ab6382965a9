import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Metafile } from 'esbuild'

/** A dependency with code in a program. */
export interface BundledPackage {
  readonly name: string
  readonly version: string
  /** licence, as an SPDX expression */
  readonly license: string
  /** `sha512-…` of the registry's package */
  readonly integrity: string
  /** its folder below the project */
  readonly folder: string
  /** `name@version` of its dependencies with code in a program */
  readonly dependsOn: readonly string[]
}

interface Locked {
  readonly version: string
  readonly integrity?: string
  readonly dev?: boolean
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
}

interface Manifest {
  readonly name: string
  readonly license?: string | { readonly type: string }
  /** older form of `license` in npm's packages */
  readonly licenses?: readonly { readonly type: string }[]
}

export const idOf = ({ name, version }: Pick<BundledPackage, 'name' | 'version'>): string => `${name}@${version}`

/**
 * Returns the packages in esbuild's outputs, with the data of the lock file; one version at two places counts once.
 *
 * @throws Error that names a package that the lock file lacks, or has only for work on the project, or that has no
 * licence
 */
export function bundledPackages(root: string, metafiles: readonly Metafile[]): BundledPackage[] {
  const read = <T>(file: string) => JSON.parse(readFileSync(join(root, file), 'utf8')) as T
  const { packages: locked } = read<{ packages: Record<string, Locked> }>('package-lock.json')
  const folders = foldersOf(metafiles)
  const found = [...folders].map((folder): BundledPackage => {
    const { version, integrity, dev, ...rest }: Partial<Locked> = locked[folder] ?? {}
    if (version === undefined || integrity === undefined) throw new Error(`package-lock.json does not lock ${folder}`)
    if (dev) throw new Error(`${folder} is a dependency for development alone`)
    const { name, license, licenses } = read<Manifest>(join(folder, 'package.json'))
    const said = license ?? licenses?.[0]
    const expression = typeof said === 'string' ? said : said?.type
    if (expression === undefined) throw new Error(`${folder}/package.json names no licence`)
    const named = Object.keys({ ...rest.dependencies, ...rest.optionalDependencies, ...rest.peerDependencies })
    const dependsOn = named.flatMap((name) => {
      const beside = placesOf(name, folder).find((place) => folders.has(place))
      return beside === undefined ? [] : [idOf({ name, version: locked[beside]?.version ?? '' })]
    })
    return { name, version, license: expression, integrity, folder, dependsOn: [...new Set(dependsOn)].sort() }
  })
  return [...new Map(found.map((one) => [idOf(one), one])).values()].sort((a, b) => (idOf(a) < idOf(b) ? -1 : 1))
}

/** Returns `node_modules/…` of each package with bytes in an output. */
function foldersOf(metafiles: readonly Metafile[]): Set<string> {
  const inputs = metafiles
    .flatMap(({ outputs }) => Object.values(outputs))
    .flatMap(({ inputs }) => Object.entries(inputs))
    .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
  return new Set(inputs.flatMap(([path]) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? []))
}

/** Returns the paths where a package in `folder` finds `name`, the nearest first. */
function placesOf(name: string, folder: string): string[] {
  const parts = `${folder}/`.split('node_modules/')
  return parts.map((_, i) => `${parts.slice(0, parts.length - i).join('node_modules/')}node_modules/${name}`)
}
