import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type BuildOptions, build, type Metafile, type Plugin } from 'esbuild'
import { vendorSeparator } from '../../src/agentk/health/custom/vendors.ts'

export type ProgramName = 'kas' | 'agentk'

/**
 * Entry points that are started by a path: the programs, and their threads, which the code looks for beside itself.
 * Each program has its own folder, so that an image needs only one.
 */
const programs = {
  kas: {
    main: 'src/kas/main.ts',
    'lib/parsing-thread-program': 'src/kas/parsing-thread-program.ts',
  },
  agentk: {
    main: 'src/agentk/main.ts',
    'lib/manifests-thread-program': 'src/agentk/modules/gitops/build/manifests-thread-program.ts',
    'lib/views-worker': 'src/agentk/modules/views/thread/views-worker.ts',
  },
}

/** data that agentk reads, and its place: the folder next to `lib` */
const healthRules = { from: 'src/agentk/health/vendors', to: 'agentk/vendors' }

/** `debug` uses optional packages of node_modules, which are there only for work on the project. */
const withoutColors: Plugin = {
  name: 'without-colors',
  setup({ onResolve }) {
    onResolve({ filter: /^supports-color$/ }, ({ path, importer }) =>
      importer.includes('node_modules/debug/') ? { path, external: true } : undefined,
    )
  },
}

/** Bundles a few large files in place of 1,100 modules, without unused code (doc/decisions/0020). */
const options = {
  bundle: true,
  splitting: true, // code that is loaded later stays in a file of its own
  format: 'esm',
  platform: 'node',
  target: 'node24',
  chunkNames: 'lib/[name]-[hash]',
  banner: {
    js: "import { createRequire as requireFrom } from 'node:module';const require = requireFrom(import.meta.url);",
  },
  minifySyntax: true, // names stay, since stacks show functions by them
  minifyWhitespace: true, // no comments, and ASCII: V8 then keeps the text of running code in one byte a character
  lineLimit: 12000, // for columns in stacks; shorter lines add 4 KB to the package at 4,000, 20 KB at 1,000
  legalComments: 'none', // the notices have the licences
  external: ['bufferutil', 'utf-8-validate'], // ws uses them if they are installed
  plugins: [withoutColors],
  preserveSymlinks: true, // a node_modules that is a link gives the same bytes
  logLevel: 'warning',
  metafile: true,
} satisfies BuildOptions

/**
 * Bundles both programs of the source tree.
 *
 * @param to - folder that gets `kas` and `agentk`
 * @returns the content of each program, by esbuild
 * @throws Error with the messages of esbuild
 */
export async function bundle(root: string, to: string): Promise<Record<ProgramName, Metafile>> {
  const made = async (name: ProgramName) => {
    const files = { entryPoints: programs[name], absWorkingDir: root, outdir: join(to, name) }
    return (await build({ ...options, ...files })).metafile
  }
  const [kas, agentk] = await Promise.all([made('kas'), made('agentk')])
  await joinRules(join(root, healthRules.from), join(to, healthRules.to))
  return { kas, agentk }
}

/** Joins all rules into one file, since the package may have only a few files. */
async function joinRules(from: string, to: string): Promise<void> {
  const names = (await readdir(from)).sort()
  const texts = await Promise.all(names.map((name) => readFile(join(from, name), 'utf8')))
  await mkdir(to, { recursive: true })
  await writeFile(join(to, 'rules.yaml'), texts.map((text) => withoutComments(text).trimEnd()).join(vendorSeparator))
}

/** Removes the lines that are comments from a file of rules. */
function withoutComments(yaml: string): string {
  return yaml.replaceAll(/^ *#.*\n/gm, '')
}
