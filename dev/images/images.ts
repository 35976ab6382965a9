import { hash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { allocatorEnvironment, nodeEnvironment } from '../node-flags.ts'
import type { ProgramName } from '../package/bundle.ts'
import { bundledPackages } from '../package/bundled-packages.ts'
import { noticesOf } from '../package/notices.ts'
import { type Staged, stage } from '../package/package.ts'
import { type Component, componentOf, hashOf, purlOf, sbomOf } from '../package/sbom.ts'
import { statementOf } from '../package/statement.ts'
import { compressedLayer } from './compressed-layer.ts'
import { type DebianPackage, debianPackages } from './debian.ts'
import { addRoot, DebianFiles, uid } from './file-system.ts'
import { type GoModule, type GoProgram, goProgram, goProgramFile } from './go-program.ts'
import { Layer } from './layer.ts'
import { type Node, nodeFor } from './node.ts'
import { type Architecture, type Image, type ImageLayout, writeLayout } from './oci-layout.ts'
import { commandOf, programLayer } from './program-layer.ts'

/**
 * `npm run images -- FOLDER`: makes the images as OCI layouts, a folder each. They consist of Debian's packages, which
 * are only unpacked, the Node of the lock file, and the programs of this tree. It needs no registry of images and no
 * base image, and can make them for this processor or another. Two runs with one commit and one state of Debian's
 * mirror give the same bytes.
 */

const usage = `npm run images -- FOLDER [--architectures amd64,arm64] [--only kas,agentk,agentk-gitops]`
const root = resolve(import.meta.dirname, '../..')
const allArchitectures: readonly Architecture[] = ['amd64', 'arm64']

interface Recipe {
  readonly program: ProgramName
  /** files of Debian's packages; their libraries are added automatically */
  readonly files: readonly string[]
  /** absent: glibc's allocator */
  readonly allocator?: typeof allocatorEnvironment
  readonly renderers: readonly GoModule[]
}

/** files of each image */
const baseFiles = ['usr/bin/tini', 'usr/lib/os-release', 'etc/os-release']
const git = ['git', 'git-remote-http', 'git-remote-https'].map((name) => `usr/lib/git-core/${name}`)
const recipes: Readonly<Record<string, Recipe>> = {
  // git starts ssh, and a repository on the same host, with a shell
  kas: {
    program: 'kas',
    files: ['usr/bin/git', 'usr/bin/git-upload-pack', ...git, 'usr/bin/ssh', 'bin/sh'],
    allocator: allocatorEnvironment,
    renderers: [],
  },
  agentk: { program: 'agentk', files: [], renderers: [] },
  'agentk-gitops': {
    program: 'agentk',
    files: ['bin/sh', 'usr/bin/unshare'],
    renderers: [
      { name: 'helm', path: 'helm.sh/helm/v3/cmd/helm', version: 'v3.22.0' },
      { name: 'kustomize', path: 'sigs.k8s.io/kustomize/kustomize/v5', version: 'v5.8.0' },
    ],
  },
}
const packages = [
  'libc6',
  'libstdc++6',
  'libjemalloc2',
  'tini',
  'base-files',
  'ca-certificates',
  'git',
  'openssh-client',
  'dash',
  'util-linux',
]

export interface ImagesOptions {
  /** folder that gets a folder for each image */
  readonly to: string
  readonly names?: readonly string[]
  readonly architectures?: readonly Architecture[]
  /** folder for downloads and builds; default: in the user's cache */
  readonly cache?: string
  /** content of the package; default: made from this tree */
  readonly staged?: Staged
  /** Called with each step that begins, in one line. */
  readonly onStep?: (text: string) => void
}

export interface MadeImage extends ImageLayout {
  /** name such as `kas:0.1.0` */
  readonly name: string
  /** folder of its OCI layout */
  readonly folder: string
}

/** folder for downloads and builds */
export const userCache = () => join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'kas-images')

/** Returns true if the slow builds of an image, for one processor, are cached for this machine's Go. */
export async function isQuicklyMade(name: string, architecture: Architecture): Promise<boolean> {
  const renderers = recipes[name]?.renderers ?? []
  const files = await Promise.all(renderers.map((module) => goProgramFile(module, architecture, userCache())))
  return files.every(existsSync)
}

/** @throws Error that names what this machine lacks */
export async function makeImages(options: ImagesOptions): Promise<MadeImage[]> {
  if (options.staged) return imagesOf(options.staged, options)
  options.onStep?.('bundling kas and agentk of this tree')
  const folder = await mkdtemp(join(tmpdir(), 'kas-staged-'))
  try {
    return await imagesOf(await stage(folder), options)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function imagesOf(staged: Staged, options: ImagesOptions): Promise<MadeImage[]> {
  const {
    to,
    names = Object.keys(recipes),
    architectures = allArchitectures,
    cache = userCache(),
    onStep = () => {},
  } = options
  const workshop = new Workshop({ cache, staged, onStep })
  const made: MadeImage[] = []
  for (const name of names) {
    const images: Image[] = []
    for (const architecture of architectures) images.push(await workshop.image(name, architecture))
    onStep(`writing ${name}`)
    const folder = join(to, name)
    const tagged = `${name}:${workshop.version}`
    made.push({ name: tagged, folder, ...(await writeLayout(folder, tagged, images)) })
  }
  await writeFile(join(to, 'images.intoto.json'), await workshop.statement(made))
  return made
}

class Workshop {
  readonly #cache: string
  readonly #staged: Staged
  readonly #onStep: (text: string) => void
  readonly #debian = new Map<Architecture, Promise<DebianPackage[]>>()
  readonly #node = new Map<Architecture, Promise<Node>>()
  readonly #materials = new Map<string, Readonly<Record<string, string>>>()

  constructor({ cache, staged, onStep }: { cache: string; staged: Staged; onStep: (text: string) => void }) {
    this.#cache = cache
    this.#staged = staged
    this.#onStep = onStep
  }

  get version(): string {
    return this.#staged.version
  }

  async image(name: string, architecture: Architecture): Promise<Image> {
    const recipe = recipes[name]
    if (!recipe) throw new Error(`there is no image ${name}: ${Object.keys(recipes).join(', ')}`)
    if (!this.#debian.has(architecture))
      this.#onStep(`fetching Debian's packages and Node for ${architecture}, where ${this.#cache} lacks them`)
    const [debian, node] = await Promise.all([this.#debianOf(architecture), this.#nodeOf(architecture)])
    this.#onStep(`laying out ${name} for ${architecture}`)
    const files = new DebianFiles(debian)
    const base = this.#base(files, node.program)
    const runtime = new Layer()
    runtime.file('usr/bin/node', node.program, 0o755)
    runtime.file('usr/share/doc/node/LICENSE', node.license)
    const layers: [about: string, layer: Layer][] = [
      ['Debian', base],
      [`Node ${node.version}`, runtime],
    ]
    const tools = new Layer()
    files.add(tools, ...recipe.files)
    if (recipe.allocator) files.addLibrary(tools, recipe.allocator.LD_PRELOAD)
    files.addRecords(tools)
    if (tools.entries.size > 0) layers.push(["Debian, this image's own", tools])
    const components: Component[] = [
      nodeComponent(node),
      ...files.taken.map((one) => debianComponent(one, architecture)),
    ]
    for (const module of recipe.renderers) {
      const isMade = existsSync(await goProgramFile(module, architecture, this.#cache))
      this.#onStep(`${isMade ? 'reading' : 'compiling, which takes minutes,'} ${module.name} for ${architecture}`)
      const made = await goProgram(module, architecture, this.#cache)
      layers.push([`${module.name} ${module.version}`, rendererLayer(module, made)])
      components.push(...made.components)
    }
    for (const { name, version, digest } of files.taken)
      this.#materials.set(`${name}_${version}_${architecture}.deb`, { sha256: digest })
    layers.push([`${recipe.program} ${this.version}`, await this.#program(name, recipe.program, components)])
    this.#onStep(`compressing ${name} for ${architecture}`)
    return {
      architecture,
      layers: await Promise.all(layers.map(([about, layer]) => compressedLayer(about, layer, this.#cache))),
      config: this.#config(recipe),
    }
  }

  async statement(made: readonly MadeImage[]): Promise<string> {
    const lockFile = hash('sha256', await readFile(join(root, 'package-lock.json')))
    return statementOf({
      outputs: new Map(made.map(({ name, digest }) => [name, digest.replace('sha256:', '')])),
      purl: purlOf(`kas@${this.version}`),
      commit: this.#staged.commit,
      lockFile,
      script: 'dev/images/images.ts',
      materials: [...this.#materials].sort().map(([name, digest]) => ({ name, digest })),
    })
  }

  #debianOf(architecture: Architecture): Promise<DebianPackage[]> {
    const known = this.#debian.get(architecture) ?? debianPackages(packages, architecture, this.#cache)
    this.#debian.set(architecture, known)
    return known
  }

  #nodeOf(architecture: Architecture): Promise<Node> {
    const known = this.#node.get(architecture) ?? nodeFor(root, architecture, this.#cache)
    this.#node.set(architecture, known)
    return known
  }

  /** Makes the layer that is the same for all images of a processor. */
  #base(files: DebianFiles, node: Buffer): Layer {
    const layer = new Layer()
    addRoot(layer, files.authorities())
    files.add(layer, ...baseFiles)
    files.addLibraries(layer, node)
    files.addRecords(layer)
    return layer
  }

  /** Makes the layer of the program, with the list of the whole image's components. */
  async #program(name: string, program: ProgramName, others: readonly Component[]): Promise<Layer> {
    const layer = await programLayer(program, this.#staged.folder)
    const packages = bundledPackages(root, [this.#staged.metafiles[program]])
    // two renderers have modules in common
    const all = [...packages.map(componentOf), ...others].map((one) => [one.purl, one] as const)
    const components = [...new Map(all).values()]
    const own = { type: 'container', name, version: this.version, license: 'MIT' } as const
    const subject = { ...own, purl: `pkg:oci/${name}@${this.version}`, dependsOn: components.map(({ purl }) => purl) }
    layer.file('usr/share/doc/kas/sbom.cdx.json', sbomOf({ subject, commit: this.#staged.commit, components }))
    layer.file('usr/share/doc/kas/THIRD-PARTY-NOTICES.txt', noticesOf(root, packages))
    layer.file('usr/share/doc/kas/LICENSE', await readFile(join(root, 'LICENSE')))
    return layer
  }

  #config({ program, allocator }: Recipe): object {
    const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
    const environment = { PATH: path, ...nodeEnvironment, ...allocator }
    return {
      User: `${uid}:${uid}`,
      Env: Object.entries(environment).map((entry) => entry.join('=')),
      Entrypoint: ['/usr/bin/tini', '--', ...commandOf(program)],
      WorkingDir: '/',
      Labels: {
        'org.opencontainers.image.title': program,
        'org.opencontainers.image.version': this.version,
        'org.opencontainers.image.revision': this.#staged.commit,
        'org.opencontainers.image.licenses': 'MIT',
      },
    }
  }
}

const nodeComponent = ({ name, version, integrity }: Node): Component => ({
  type: 'application',
  name: 'node',
  version,
  purl: purlOf(`${name}@${version}`),
  hash: hashOf(integrity),
})

const debianComponent = ({ name, version, digest }: DebianPackage, architecture: Architecture): Component => ({
  type: 'library',
  name,
  version,
  purl: `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${architecture}`,
  hash: { alg: 'SHA-256', content: digest },
})

function rendererLayer({ name }: GoModule, { program, notices }: GoProgram): Layer {
  const layer = new Layer()
  layer.file(`usr/bin/${name}`, program, 0o755)
  layer.file(`usr/share/doc/${name}/THIRD-PARTY-NOTICES.txt`, notices)
  return layer
}

async function main(): Promise<void> {
  const options = { architectures: { type: 'string' }, only: { type: 'string' } } as const
  const { values, positionals } = parseArgs({ options, allowPositionals: true })
  const [to] = positionals
  if (to === undefined || positionals.length > 1) throw new Error(usage)
  const architectures = (values.architectures?.split(',') ?? allArchitectures) as Architecture[]
  if (!architectures.every((one) => allArchitectures.includes(one))) throw new Error(usage)
  await mkdir(to, { recursive: true })
  for (const { name, folder, digest, compressedBytes } of await makeImages({
    to: resolve(to),
    architectures,
    onStep: (text) => process.stderr.write(`${text} ...\n`),
    ...(values.only && { names: values.only.split(',') }),
  })) {
    const sizes = [...compressedBytes].map(([architecture, bytes]) => `${architecture} ${(bytes / 1e6).toFixed(1)} MB`)
    process.stdout.write(`${name}  ${digest}  ${sizes.join(', ')}  ${folder}\n`)
  }
}

if (import.meta.main) {
  try {
    await main()
  } catch (error) {
    process.stderr.write(`kas: no images: ${error instanceof Error ? error.message : String(error)}\n`)
    process.exitCode = 1
  }
}
