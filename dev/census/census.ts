import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { roomsOf } from './rooms.ts'
import { shapeOf } from './shape.ts'

/**
 * `npm run census [CHECKOUT…] [-- --rooms FOLDER]…`: prints the shape of `src` in each checkout, side by side; the
 * default is this checkout. With `--rooms`, it prints the rooms of a folder instead, such as
 * `src/agentk/modules/gitops`.
 */

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { rooms: { type: 'string', multiple: true, default: [] } },
})
const checkouts = positionals.length > 0 ? positionals : [join(import.meta.dirname, '..', '..')]

if (values.rooms.length === 0) {
  const shapes = checkouts.map(shapeOf)
  for (const name of Object.keys(shapes[0] ?? {}) as (keyof (typeof shapes)[number])[]) {
    print(
      shapes.map((shape) => shape[name]),
      name,
    )
  }
}
for (const folder of values.rooms) {
  const found = checkouts.map((checkout) => roomsOf(join(checkout, folder)))
  for (const name of ['rooms', 'arrows', 'floors'] as const) {
    print(
      found.map((one) => one[name].length),
      `${name} of ${folder}`,
    )
  }
  const up = found.map((one) => one.up.map((arrow) => arrow.join(' -> ')))
  const names = [...new Set(up.flat())].map((arrow) => `\n${' '.repeat(9 * found.length)}    ${arrow}`)
  print(
    up.map((arrows) => arrows.length),
    `arrows up of ${folder}${names.join('')}`,
  )
}

function print(figures: readonly number[], name: string): void {
  const columns = figures.map((figure) => figure.toLocaleString('en').padStart(9)).join('')
  process.stdout.write(`${columns}  ${name}\n`)
}
