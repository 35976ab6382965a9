import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { shapeOf } from './shape.ts'

/** `npm run census [FOLDER…]`: the shape of `src` in each checkout, side by side; absent: of this one. */

const { positionals } = parseArgs({ allowPositionals: true })
const folders = positionals.length > 0 ? positionals : [join(import.meta.dirname, '..', '..')]
const shapes = folders.map(shapeOf)
for (const name of Object.keys(shapes[0] ?? {}) as (keyof (typeof shapes)[number])[]) {
  const figures = shapes.map((shape) => shape[name].toLocaleString('en').padStart(9)).join('')
  process.stdout.write(`${figures}  ${name}\n`)
}
