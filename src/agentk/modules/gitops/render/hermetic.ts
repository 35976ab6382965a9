import { posix } from 'node:path'
import { type ManifestProblem, type ObjectTree, Problems } from '../manifests/manifest.ts'
import type { Document } from '../manifests/read-yaml.ts'
import { type RoundBudget, roundBudget } from '../manifests/round-budget.ts'
import { hiddenValue, mayMakeSecret } from '../manifests/secrets.ts'
import { readAsPrograms } from './as-programs.ts'
import type { FileSet } from './file-set.ts'

const kustomizationNames = ['kustomization.yaml', 'kustomization.yml', 'Kustomization']
/** Fields that name folders with kustomizations, or files. */
const folderFields = ['resources', 'bases', 'components']
/** Fields that name files, or have YAML itself. */
const configurationFields = ['generators', 'transformers', 'validators']
const fileFields = ['crds', 'configurations', 'patchesStrategicMerge', 'patches']
/** Fields with files in `path`. In `patches`, older kustomize also takes names of files. */
const patchFields = ['patches', 'patchesJson6902', 'replacements']
const secretGenerator = 'secretGenerator'
const generatorFields = ['configMapGenerator', secretGenerator]
const chartFields = ['helmCharts', 'helmChartInflationGenerator', 'helmGlobals']
/** Fields of a folder of generators, transformers or validators: others could make an address of pieces. */
const configurationFolderFields = ['apiVersion', 'kind', 'metadata', 'resources']
/** Characters with which a text of `generators`, `transformers` or `validators` may be YAML itself. */
const inlineMarks = /[\n\r\u0085\u2028\u2029{]/
const lineEnds = /[\n\r\u0085\u2028\u2029]/
const lastLineEnds = /[\n\r\u0085\u2028\u2029]+$/
/** Names that kustomize clones as repositories, even if a folder has that name. */
const repositoryForm = /^(?:git::)*(?:[a-z][a-z\d-]*@[^/]*[:/]|github\.com[:/]|gh:)/i

/**
 * Returns what a kustomization, and those that it names, would take from elsewhere than the commit's files. By
 * itself, kustomize fetches addresses, and takes the names of some folders for repositories.
 */
export function kustomizeProblems(
  set: FileSet,
  folder: string,
  budget: RoundBudget = roundBudget(),
): ManifestProblem[] {
  return new Kustomizations(set, budget).check(folder)
}

/** Folder with a kustomization. */
interface Place {
  readonly folder: string
  /** its objects are generators, transformers or validators */
  readonly isConfiguration: boolean
}

class Kustomizations {
  readonly #set: FileSet
  readonly #seen = new Set<string>()
  /** once it is full, nothing more is checked */
  readonly #problems = new Problems()
  readonly #budget: RoundBudget
  readonly #places: Place[] = []

  constructor(set: FileSet, budget: RoundBudget) {
    this.#set = set
    this.#budget = budget
  }

  check(root: string): ManifestProblem[] {
    this.#add({ folder: root, isConfiguration: false })
    for (let place = this.#places.pop(); place && !this.#problems.isFull; place = this.#places.pop())
      this.#kustomization(place)
    return this.#problems.list()
  }

  /** Adds a folder once, however often it is named. */
  #add(place: Place): void {
    const key = `${place.isConfiguration} ${place.folder}`
    if (this.#seen.has(key)) return
    this.#seen.add(key)
    this.#places.push(place)
  }

  #kustomization({ folder, isConfiguration }: Place): void {
    const names = kustomizationNames.map((name) => (folder === '.' ? name : `${folder}/${name}`))
    const name = names.find((name) => this.#set.isFile(name))
    if (name === undefined) {
      this.#problems.push({ file: folder, line: 0, text: 'the folder has no kustomization.yaml' })
      return
    }
    for (const { object, line } of this.#read(name)) {
      const bad = (text: string) => void this.#problems.push({ file: name, line, text })
      for (const field of isConfiguration ? otherFields(object) : [])
        bad(`${spelt(field)}: a folder of generators, transformers or validators has resources alone`)
      for (const field of fieldsWithOthers(object)) bad(`${field}: an entry is no text`)
      for (const field of chartFields)
        if (valuesOf(object, field).length > 0) bad(`${field}: charts are rendered by helm of the configuration`)
      for (const field of folderFields) {
        for (const path of texts(valuesOf(object, field))) {
          if (this.#problems.isFull) return
          const found = this.#foundPlace(folder, path)
          if (found === undefined) bad(`${field}: ${spelt(path)} is no file or folder of the commit`)
          else if (this.#set.isFolder(found)) this.#add({ folder: found, isConfiguration })
          else if (isConfiguration) this.#configurationFile(found, bad)
        }
      }
      const isFile = (path: string) => this.#set.isFile(this.#found(folder, path) ?? '')
      for (const path of pathsIn(object)) if (!isFile(path)) bad(`${spelt(path)} is no file of the commit`)
      // an entry may be a value in the place of a path, so that no text shows it
      if (generatedPaths(object, secretGenerator).some((path) => !isFile(path)))
        bad(`${secretGenerator}: an entry of files, env or envs is no file of the commit`)
      for (const text of configurationFields.flatMap((field) => texts(valuesOf(object, field)))) {
        this.#configuration(folder, text, bad)
      }
    }
  }

  /** Checks a generator, transformer or validator, given as YAML, file or folder; a folder may have more of them. */
  #configuration(folder: string, text: string, bad: (text: string) => void): void {
    const path = text.replace(lastLineEnds, '')
    const found = this.#foundPlace(folder, path)
    if (inlineMarks.test(text)) {
      // kustomize takes YAML without objects for a path
      if (found !== undefined || leadsElsewhere(folder, path)) bad(`${spelt(text)} may be read as a path`)
      const { documents, problems } = readAsPrograms([{ path: 'inline', data: Buffer.from(text) }], {
        budget: this.#budget,
      })
      for (const { text } of problems) bad(text)
      checkAddresses(documents, bad)
    } else if (found === undefined) bad(`${spelt(text)} is no file or folder of the commit`)
    else if (this.#set.isFolder(found)) this.#add({ folder: found, isConfiguration: true })
    else this.#configurationFile(found, bad)
  }

  /** Checks a file once, however often it is named. */
  #configurationFile(path: string, bad: (text: string) => void): void {
    if (this.#seen.has(path)) return
    this.#seen.add(path)
    checkAddresses(this.#read(path), bad)
  }

  /** Resolves the path of a file or folder that kustomize does not take for a repository. */
  #foundPlace(folder: string, path: string): string | undefined {
    return repositoryForm.test(path) ? undefined : this.#found(folder, path)
  }

  #found(folder: string, path: string): string | undefined {
    if (lineEnds.test(path)) return undefined // readers differ in the last line end of a file
    const resolved = this.#set.resolve(folder, path)
    return resolved !== undefined && (this.#set.isFile(resolved) || this.#set.isFolder(resolved)) ? resolved : undefined
  }

  #read(path: string): Document[] {
    const file = this.#set.files.get(path)
    if (!file) return []
    const { documents, problems } = readAsPrograms([file], { budget: this.#budget })
    this.#problems.push(...problems)
    return documents
  }
}

function otherFields(object: ObjectTree): string[] {
  return Object.keys(object).filter((key) => !configurationFolderFields.some((field) => folded(field) === folded(key)))
}

/** Returns the fields of paths with another type of value, which another reader may take for a path. */
function fieldsWithOthers(object: ObjectTree): string[] {
  const isOther = (item: unknown) => typeof item !== 'string' && item !== null
  const generated = generatorFields.flatMap((field) => maps(valuesOf(object, field)))
  const own = [...folderFields, ...configurationFields, 'crds', 'configurations', 'patchesStrategicMerge']
  return [
    ...own.filter((field) => valuesOf(object, field).some(isOther)),
    ...['files', 'env', 'envs'].filter((field) => generated.some((item) => valuesOf(item, field).some(isOther))),
  ]
}

function checkAddresses(documents: readonly Document[], bad: (text: string) => void): void {
  for (const { object } of documents) {
    const isOfSecret = mayMakeSecret(`kind: ${object.kind}`)
    for (const address of addressesIn(object)) {
      bad(`${isOfSecret ? hiddenValue : spelt(address)} is no file of the commit`)
    }
  }
}

/** True if a path in a file of `folder` is an address, or leads outside. */
function leadsElsewhere(folder: string, path: string): boolean {
  return /^(?:\/|https?:)/i.test(path) || repositoryForm.test(path) || /^\.\.(?:\/|$)/.test(posix.join(folder, path))
}

/** Returns a path as texts show it. A Secret, or a patch of one, may stand in its place: JSON, or several lines. */
function spelt(path: string): string {
  const [first = ''] = path.split(lineEnds, 1)
  return mayMakeSecret(path) || /^\s*[[{]/.test(path) ? hiddenValue : first.slice(0, 200)
}

/** Returns the values of a field, or of its list. kustomize ignores the case of field names, also beyond ASCII. */
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

/** Returns the files that a kustomization reads, but for Secrets; a text with more lines is YAML itself. */
function pathsIn(object: ObjectTree): string[] {
  const others = generatorFields.filter((field) => field !== secretGenerator)
  return [
    ...fileFields
      .flatMap((field) => texts(valuesOf(object, field)))
      .filter((text) => !lineEnds.test(text.replace(lastLineEnds, ''))),
    ...patchFields.flatMap((field) => maps(valuesOf(object, field))).flatMap((item) => texts(valuesOf(item, 'path'))),
    ...maps(valuesOf(object, 'openapi')).flatMap((item) => texts(valuesOf(item, 'path'))),
    ...others.flatMap((field) => generatedPaths(object, field)),
  ]
}

/** Returns the files that a generator reads. @param field - of the kustomization */
function generatedPaths(object: ObjectTree, field: string): string[] {
  const generated = maps(valuesOf(object, field))
  return [
    ...generated.flatMap((item) => texts(valuesOf(item, 'files'))).map((text) => text.slice(text.indexOf('=') + 1)),
    ...['env', 'envs'].flatMap((name) => generated.flatMap((item) => texts(valuesOf(item, name)))),
  ]
}

/** Returns the addresses in fields that may name a file. */
function addressesIn(value: unknown, key = ''): string[] {
  if (typeof value === 'string')
    return /path|file|env|resource|repo|chart/.test(folded(key)) && value.includes('://') ? [value] : []
  if (Array.isArray(value)) return value.flatMap((item) => addressesIn(item, key))
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([inner, item]) => [...addressesIn(inner, key), ...addressesIn(item, inner)])
}
