import { existsSync, globSync, lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import type { DebianPackage } from './debian.ts'
import { isElf, neededBy } from './elf.ts'
import type { Layer } from './layer.ts'

/** Folders that are links, since all programs and libraries lie below /usr. */
const merged = ['bin', 'sbin', 'lib', 'lib64']
const executable = 0o100

/** Chosen files of Debian's packages, with the libraries that they are linked with. */
export class DebianFiles {
  readonly #packages: readonly DebianPackage[]
  readonly #taken = new Set<DebianPackage>()
  readonly #recorded = new Set<DebianPackage>()
  readonly #done = new Set<string>()

  constructor(packages: readonly DebianPackage[]) {
    this.#packages = packages
  }

  /** packages of which a file was taken */
  get taken(): DebianPackage[] {
    return [...this.#taken].sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  /**
   * Adds files to `layer`, at their paths.
   *
   * @param paths - of files and links, below the root: `usr/bin/git`
   * @throws Error that names a path that no package has
   */
  add(layer: Layer, ...paths: readonly string[]): void {
    for (const path of paths) this.#addOne(layer, path)
  }

  /** @throws Error that names a path that no package has */
  read(path: string): Buffer {
    return readFileSync(this.#find(path))
  }

  /** Returns the certificates of authorities that a script of the package would collect. */
  authorities(): Buffer[] {
    const folder = 'usr/share/ca-certificates/mozilla'
    const { folder: root = '' } = this.#packages.find(({ name }) => name === 'ca-certificates') ?? {}
    const names = readdirSync(join(root, folder)).filter((name) => name.endsWith('.crt'))
    return names.sort().map((name) => this.read(`${folder}/${name}`))
  }

  /** Adds the libraries with which a program is linked to `layer`. */
  addLibraries(layer: Layer, program: Buffer): void {
    if (!isElf(program)) return
    for (const name of neededBy(program)) this.#addOne(layer, this.#library(name))
  }

  /** Adds a library that programs load by its name to `layer`, and the libraries with which it is linked. */
  addLibrary(layer: Layer, name: string): void {
    this.#addOne(layer, this.#library(name))
  }

  /**
   * Adds the records of the packages of which files were taken since the last call, where scanners of images without
   * dpkg look, and their licences.
   */
  addRecords(layer: Layer): void {
    // grows meanwhile: a licence may be in another package
    for (const one of this.#taken) {
      const { name, control } = one
      if (this.#recorded.has(one)) continue
      this.#recorded.add(one)
      layer.file(`var/lib/dpkg/status.d/${name}`, control)
      const documents = `usr/share/doc/${name}`
      const file = join(one.folder, documents)
      const isLink = lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink()
      if (isLink) layer.link(documents, readlinkSync(file))
      const place = isLink ? normalize(join(dirname(documents), readlinkSync(file))) : documents
      this.#addOne(layer, `${place}/copyright`)
    }
  }

  #addOne(layer: Layer, given: string): void {
    const path = mergedPath(given)
    if (this.#done.has(path)) return
    this.#done.add(path)
    const file = this.#find(path)
    const status = lstatSync(file)
    if (status.isSymbolicLink()) {
      const target = readlinkSync(file)
      layer.link(path, target)
      const next = target.startsWith('/') ? target.slice(1) : normalize(join(dirname(path), target))
      this.#addOne(layer, next)
    } else {
      const content = readFileSync(file)
      layer.file(path, content, status.mode & executable ? 0o755 : 0o644)
      this.addLibraries(layer, content)
    }
  }

  #find(path: string): string {
    const places = [path, ...(path.startsWith('usr/') ? [path.slice('usr/'.length)] : [])]
    for (const one of this.#packages) {
      for (const place of places) {
        const file = join(one.folder, place)
        if (!lstatSync(file, { throwIfNoEntry: false })) continue
        this.#taken.add(one)
        return file
      }
    }
    throw new Error(`no Debian package of the image has ${path}`)
  }

  #library(name: string): string {
    for (const { folder } of this.#packages) {
      const folders = globSync(['lib', 'usr/lib', 'lib64', 'lib/*/', 'usr/lib/*/'], { cwd: folder })
      const found = folders.map((below) => join(below, name)).find((path) => existsSync(join(folder, path)))
      if (found !== undefined) return found
    }
    throw new Error(`no Debian package of the image has the library ${name}`)
  }
}

function mergedPath(path: string): string {
  const [first = ''] = path.split('/')
  return merged.includes(first) ? `usr/${path}` : path
}

/** Adds an empty root: the folders, users and mount points that a runtime and the programs need. */
export function addRoot(layer: Layer, authorities: readonly Buffer[]): void {
  for (const name of merged) layer.link(name, `usr/${name}`)
  for (const folder of ['dev', 'proc', 'sys', 'run', 'root', 'usr/bin', 'usr/sbin', 'usr/lib', 'usr/lib64'])
    layer.folder(folder)
  for (const folder of ['etc/kas', 'etc/agentk', 'usr/share/git-core/templates']) layer.folder(folder)
  for (const folder of ['tmp', 'var/tmp']) layer.folder(folder, 0o1777)
  layer.link('var/run', '../run')
  for (const file of ['etc/hosts', 'etc/hostname', 'etc/resolv.conf']) layer.file(file, '')
  layer.file('etc/nsswitch.conf', 'passwd: files\ngroup: files\nhosts: files dns\n')
  layer.file('etc/passwd', `root:x:0:0:root:/root:/sbin/nologin\n${user}:x:${uid}:${uid}:${user}:/tmp:/sbin/nologin\n`)
  layer.file('etc/group', `root:x:0:\n${user}:x:${uid}:\n`)
  layer.file('etc/ssl/certs/ca-certificates.crt', Buffer.concat(authorities))
}

/** user of GitLab's own charts */
export const uid = 65532
const user = 'nonroot'
