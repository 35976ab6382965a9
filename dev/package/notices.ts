import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { BundledPackage } from './bundled-packages.ts'

/** Texts that packages lack: of a licence that is the same for all, and of single packages (`/` of a name is `+`). */
const kept = join(import.meta.dirname, 'licences')
const common = 'Apache-2.0'
/** below this a file only says where the text is */
const minTextLength = 500
const isText = /^(licen[cs]e|copying|notice|unlicense)/i
const rule = '='.repeat(80)

const head = `Parts of the packages below are in the programs of this package, under the terms that follow their names.
`

/**
 * The licences of all packages, each text once.
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

/** The common text stands for itself, or joins that of the package. */
function keptFor(name: string, license: string): string[] {
  const alternatives = license.replace(/[()]/g, '').split(' OR ')
  const single = [join(kept, `${name.replace('/', '+')}.txt`)].filter(existsSync)
  const isEnough = single.length > 0 || alternatives.includes(common)
  return isEnough ? [...single, ...(license.includes(common) ? [join(kept, `${common}.txt`)] : [])] : []
}

/** `name@version` of those that the notices name. */
export function namedIn(notices: string): string[] {
  return notices
    .split(`${rule}\n`)
    .slice(1)
    .flatMap((part) => [...(part.split('\n\n')[0] ?? '').matchAll(/^(\S+) (\S+) \(.*\)$/gm)])
    .map(([, name, version]) => `${name}@${version}`)
}
