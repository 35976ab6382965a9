import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { BundledPackage } from './bundled-packages.ts'

/**
 * Folder of texts that packages lack: the common text of a licence, and texts of single packages (with `+` for the `/`
 * of a name).
 */
const kept = join(import.meta.dirname, 'licences')
const common = 'Apache-2.0'
/** a shorter file only names the place of the text */
const minTextLength = 500
const isText = /^(licen[cs]e|copying|notice|unlicense)/i
const rule = '='.repeat(80)

const head = `Parts of the packages below are in the programs of this package, under the terms that follow their names.
`

/**
 * Returns the licences of all packages, each text once.
 *
 * @throws Error that names a package without a text
 */
export function noticesOf(root: string, packages: readonly BundledPackage[]): string {
  const groups = Map.groupBy(packages, (one) => textOf(root, one))
  const parts = [...groups].map(([text, some]) => {
    const names = some.map(({ name, version, license }) => `${name} ${version} (${license})\n`)
    return `${rule}\n${names.join('')}\n${text}\n`
  })
  return [head, ...parts].join('\n')
}

function textOf(root: string, { name, version, license, folder }: BundledPackage): string {
  const own = readdirSync(join(root, folder)).filter((file) => isText.test(file))
  const text = joined(own.sort().map((file) => join(root, folder, file)))
  if (text.length >= minTextLength) return text
  const more = joined(keptFor(name, license))
  if (more === '') throw new Error(`${name} ${version} (${license}) has no licence text: dev/package/licences wants it`)
  return [text, more].filter(Boolean).join('\n\n')
}

const joined = (files: readonly string[]) =>
  files.map((file) => readFileSync(file, 'utf8').replaceAll('\r\n', '\n').trim()).join('\n\n')

/** Returns the files of the kept texts: the common one alone, or together with that of the package. */
function keptFor(name: string, license: string): string[] {
  const alternatives = license.replace(/[()]/g, '').split(' OR ')
  const single = [join(kept, `${name.replace('/', '+')}.txt`)].filter(existsSync)
  const isEnough = single.length > 0 || alternatives.includes(common)
  return isEnough ? [...single, ...(license.includes(common) ? [join(kept, `${common}.txt`)] : [])] : []
}

/** Returns `name@version` of the packages that the notices name. */
export function namedIn(notices: string): string[] {
  return notices
    .split(`${rule}\n`)
    .slice(1)
    .flatMap((part) => [...(part.split('\n\n')[0] ?? '').matchAll(/^(\S+) (\S+) \(.*\)$/gm)])
    .map(([, name, version]) => `${name}@${version}`)
}
