import { globSync, readFileSync } from 'node:fs'
import { isBuiltin, stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'

/** Packages that the TypeScript below a folder imports, each with the importing files. */
export interface PackageImports {
  /** imports of code that runs: static, re-exported, dynamic, required */
  readonly runtime: ReadonlyMap<string, readonly string[]>
  /** imports of types alone, which are erased */
  readonly types: ReadonlyMap<string, readonly string[]>
}

/** A quoted text, as the second group. */
const literal = /(['"])([^'"]+)\1/.source
const forms = [
  new RegExp(`^\\s*(?:import|export)\\b[^'"\`;()]*?\\bfrom\\s*${literal}`, 'gm'),
  new RegExp(`^\\s*import\\s*${literal}`, 'gm'),
  new RegExp(`\\b(?:import|require)(?:\\.meta)?(?:\\.resolve)?\\s*\\(\\s*${literal}`, 'g'),
]
const unreadable = /\b(?:import|require)\s*\(\s*(?!['"])/
const commentLines = /^\s*(?:\/\/|\/\*|\*[\s/]).*$/gm

/** @throws Error for an `import()` or `require()` whose package is not a literal */
export function packageImports(folder: string): PackageImports {
  const runtime = new Map<string, string[]>()
  const types = new Map<string, string[]>()
  const add = (to: Map<string, string[]>, name: string, file: string) => to.set(name, [...(to.get(name) ?? []), file])
  for (const file of globSync('**/*.ts', { cwd: folder }).sort()) {
    const source = readFileSync(join(folder, file), 'utf8')
    const code = stripTypeScriptTypes(source).replaceAll(commentLines, '')
    if (unreadable.test(code)) throw new Error(`${file} imports what is not written as a string`)
    const running = namesIn(code)
    for (const name of running) add(runtime, name, file)
    for (const name of namesIn(source.replaceAll(commentLines, ''))) if (!running.has(name)) add(types, name, file)
  }
  for (const name of runtime.keys()) types.delete(name)
  return { runtime, types }
}

function namesIn(code: string): Set<string> {
  const specifiers = forms.flatMap((form) => [...code.matchAll(form)].map(([, , specifier = '']) => specifier))
  const foreign = specifiers.filter((specifier) => !specifier.startsWith('.') && !isBuiltin(specifier))
  return new Set(foreign.map((specifier) => /^(?:@[^/]+\/)?[^/]+/.exec(specifier)?.[0] ?? specifier))
}
