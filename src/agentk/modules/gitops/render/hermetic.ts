import type { ManifestProblem, ObjectTree } from '../manifests/manifest.ts'
import type { Document } from '../manifests/read-yaml.ts'
import { readAsPrograms } from './as-programs.ts'
import type { FileSet } from './file-set.ts'

const kustomizationNames = ['kustomization.yaml', 'kustomization.yml', 'Kustomization']
/** Of a kustomization: its folder is one of these, or a file. */
const folderFields = ['resources', 'bases', 'components']
/** Files, or YAML itself. */
const configurationFields = ['generators', 'transformers', 'validators']
const fileFields = ['crds', 'configurations', 'patchesStrategicMerge']
const patchFields = ['patches', 'patchesJson6902', 'replacements']
const generatorFields = ['configMapGenerator', 'secretGenerator']
const chartFields = ['helmCharts', 'helmChartInflationGenerator', 'helmGlobals']

/**
 * What a kustomization, and those that it names, would take from elsewhere than the files of the commit. kustomize
 * fetches addresses by itself, and takes some folders' names for those of repositories.
 */
export function kustomizeProblems(set: FileSet, folder: string): ManifestProblem[] {
  return new Kustomizations(set).check(folder)
}

class Kustomizations {
  readonly #set: FileSet
  readonly #seen = new Set<string>()
  readonly #problems: ManifestProblem[] = []

  constructor(set: FileSet) {
    this.#set = set
  }

  check(root: string): ManifestProblem[] {
    const folders = [root]
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      if (this.#seen.has(folder)) continue
      this.#seen.add(folder)
      folders.push(...this.#kustomization(folder))
    }
    return this.#problems
  }

  /** @returns the folders that it names */
  #kustomization(folder: string): string[] {
    const names = kustomizationNames.map((name) => (folder === '.' ? name : `${folder}/${name}`))
    const name = names.find((name) => this.#set.isFile(name))
    if (name === undefined) {
      this.#problems.push({ file: folder, line: 0, text: 'the folder has no kustomization.yaml' })
      return []
    }
    const folders: string[] = []
    for (const { object, line } of this.#read(name)) {
      const bad = (text: string) => void this.#problems.push({ file: name, line, text })
      for (const field of chartFields)
        if (valuesOf(object, field).length > 0) bad(`${field}: charts are rendered by helm of the configuration`)
      for (const field of folderFields) {
        for (const path of texts(valuesOf(object, field))) {
          const found = this.#found(folder, path)
          if (found === undefined) bad(`${field}: ${spelt(path)} is no file or folder of the commit`)
          else if (this.#set.isFolder(found)) folders.push(found)
        }
      }
      for (const path of pathsIn(object)) {
        const found = this.#found(folder, path)
        if (found === undefined || !this.#set.isFile(found)) bad(`${spelt(path)} is no file of the commit`)
      }
      for (const path of configurationFields.flatMap((field) => texts(valuesOf(object, field)))) {
        this.#configuration(folder, path, bad, folders)
      }
    }
    return folders
  }

  /** Of a generator, transformer or validator, which may be a folder with more of them. */
  #configuration(folder: string, path: string, bad: (text: string) => void, folders: string[]): void {
    const isInline = path.includes('\n')
    const found = isInline ? undefined : this.#found(folder, path)
    if (found !== undefined && this.#set.isFolder(found)) folders.push(found)
    else if (found === undefined && !isInline) bad(`${spelt(path)} is no file or folder of the commit`)
    else {
      const { documents, problems } =
        found === undefined
          ? readAsPrograms([{ path: 'inline', data: Buffer.from(path) }])
          : { documents: this.#readOnce(found), problems: [] }
      for (const { text } of problems) bad(text)
      for (const { object } of documents) {
        for (const address of addressesIn(object)) bad(`${spelt(address)} is no file of the commit`)
      }
    }
  }

  #found(folder: string, path: string): string | undefined {
    const resolved = this.#set.resolve(folder, path)
    return resolved !== undefined && (this.#set.isFile(resolved) || this.#set.isFolder(resolved)) ? resolved : undefined
  }

  /** However often it is named. */
  #readOnce(path: string): Document[] {
    if (this.#seen.has(path)) return []
    this.#seen.add(path)
    return this.#read(path)
  }

  #read(path: string): Document[] {
    const file = this.#set.files.get(path)
    if (!file) return []
    const { documents, problems } = readAsPrograms([file])
    this.#problems.push(...problems)
    return documents
  }
}

function spelt(path: string): string {
  return path.slice(0, 200)
}

/** Of a field, or of its list: kustomize reads the names of fields whatever their case, by the letters of Unicode. */
function valuesOf(object: ObjectTree, field: string): unknown[] {
  const values = Object.entries(object).filter(([key]) => folded(key) === folded(field))
  return values.flatMap(([, value]) => list(value))
}

function folded(key: string): string {
  return key.toUpperCase().toLowerCase()
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : value === undefined || value === null ? [] : [value]
}

function texts(values: readonly unknown[]): string[] {
  return values.filter((item) => typeof item === 'string')
}

function maps(values: readonly unknown[]): ObjectTree[] {
  return values.filter((item): item is ObjectTree => typeof item === 'object' && item !== null && !Array.isArray(item))
}

/** Files that a kustomization reads; text of more lines is YAML itself. */
function pathsIn(object: ObjectTree): string[] {
  const generated = generatorFields.flatMap((field) => maps(valuesOf(object, field)))
  return [
    ...fileFields.flatMap((field) => texts(valuesOf(object, field))).filter((text) => !text.includes('\n')),
    ...patchFields.flatMap((field) => maps(valuesOf(object, field))).flatMap((item) => texts(valuesOf(item, 'path'))),
    ...maps(valuesOf(object, 'openapi')).flatMap((item) => texts(valuesOf(item, 'path'))),
    ...generated.flatMap((item) => texts(valuesOf(item, 'files'))).map((text) => text.slice(text.indexOf('=') + 1)),
    ...['env', 'envs'].flatMap((field) => generated.flatMap((item) => texts(valuesOf(item, field)))),
  ]
}

/** What stands as an address where such an object may name a file. */
function addressesIn(value: unknown, key = ''): string[] {
  if (typeof value === 'string')
    return /path|file|env|resource|repo|chart/.test(folded(key)) && value.includes('://') ? [value] : []
  if (Array.isArray(value)) return value.flatMap((item) => addressesIn(item, key))
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, item]) => addressesIn(item, key))
}
