import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { nodeFlags } from '../node-flags.ts'
import type { ProgramName } from '../package/bundle.ts'
import { Layer } from './layer.ts'

const node = '/usr/bin/node'
const home = 'usr/lib/kas'

/** Returns the words that start a program in its image. */
export function commandOf(program: ProgramName): string[] {
  return [node, ...nodeFlags, `/${home}/dist/${program}/main.js`]
}

/** @param staged - folder with the content of the package */
export async function programLayer(program: ProgramName, staged: string): Promise<Layer> {
  const layer = new Layer()
  const add = async (path: string): Promise<void> => {
    const file = join(staged, path)
    if ((await stat(file)).isDirectory()) for (const name of await readdir(file)) await add(`${path}/${name}`)
    else layer.file(`${home}/${path}`, await readFile(file))
  }
  await add(`dist/${program}`)
  await add('package.json')
  // for `kubectl exec`; the image's environment replaces the `env` of the package's commands
  const script = `#!${node} ${nodeFlags.join(' ')}\nimport '../dist/${program}/main.js'\n`
  layer.file(`${home}/bin/${program}.mjs`, script, 0o755)
  layer.link(`usr/bin/${program}`, `../lib/kas/bin/${program}.mjs`)
  return layer
}
