import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type BuildOptions, build, type Metafile, type Plugin } from 'esbuild'
import { vendorSeparator } from '../../src/agentk/health/custom/vendors.ts'

export type ProgramName = 'kas' | 'agentk'

/**
 * What is started by a path: the programs, and their threads, which the code looks for beside itself. Either program has
 * its own folder, so that an image holds one.
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

/** data that agentk reads, and where: of `lib`, the folder next to it */
const healthRules = { from: 'src/agentk/health/vendors', to: 'agentk/vendors' }

/** `debug` takes what lies in node_modules by chance, for work on the project alone. */
const withoutColors: Plugin = {
  name: 'without-colors',
  setup({ onResolve }) {
    onResolve({ filter: /^supports-color$/ }, ({ path, importer }) =>
      importer.includes('node_modules/debug/') ? { path, external: true } : undefined,
    )
  },
}

/** A few large files in the place of 1,100 modules, without what is never called (doc/decisions/0020). */
const options = {
  bundle: true,
  splitting: true, // what is loaded later stays a file of its own
  format: 'esm',
  platform: 'node',
  target: 'node24',
  chunkNames: 'lib/[name]-[hash]',
  banner: {
    js: "import { createRequire as requireFrom } from 'node:module';const require = requireFrom(import.meta.url);",
  },
  minifySyntax: true, // names stay: stacks name functions by them
  minifyWhitespace: true, // and without comments, in ASCII: V8 keeps the text of what runs, a byte a letter then
  lineLimit: 12000, // a stack names its column; shorter lines cost the package more: 4 KB at 4,000, 20 KB at 1,000, 50 KB at 400
  legalComments: 'none', // the notices have the licences
  external: ['bufferutil', 'utf-8-validate'], // ws takes them where they are
  plugins: [withoutColors],
  preserveSymlinks: true, // a node_modules that is a link gives the same bytes
  logLevel: 'warning',
  metafile: true,
} satisfies BuildOptions

/**
 * Makes both programs of the source tree.
 *
 * @param to - the folder that gets `kas` and `agentk`
 * @returns of each program, what is in it
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

/** One file of all rules: each of their files would be one of the few that the package may have. */
async function joinRules(from: string, to: string): Promise<void> {
  const names = (await readdir(from)).sort()
  const texts = await Promise.all(names.map((name) => readFile(join(from, name), 'utf8')))
  await mkdir(to, { recursive: true })
  await writeFile(join(to, 'rules.yaml'), texts.map((text) => withoutComments(text).trimEnd()).join(vendorSeparator))
}

/** As it stands for who reads it: of a file of rules, lines that are comments go. */
function withoutComments(yaml: string): string {
  return yaml.replaceAll(/^ *#.*\n/gm, '')
}
