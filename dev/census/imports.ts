import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

export interface Import {
  /** path below the root */
  readonly file: string
  /** path of a file below the root, or name of a package */
  readonly to: string
  readonly isFile: boolean
}

/** Returns each import of a file or a package, without those of node, by the text of the files. */
export function importsIn(root: string): Import[] {
  return globSync('**/*.ts', { cwd: root }).flatMap((file) => {
    const text = readFileSync(join(root, file), 'utf8').replaceAll(/^\s*(?:\/\*[\s\S]*?\*\/|\/\/.*$)/gm, '')
    const found = [...text.matchAll(/(?:\bfrom\s+|^import\s+|\bimport\(\s*)'([^']+)'/gm)]
    return found.flatMap(([, name = '']) => {
      if (name.startsWith('node:')) return []
      const isFile = name.startsWith('.')
      return { file, to: isFile ? normalize(join(dirname(file), name)) : name, isFile }
    })
  })
}

/** Returns pairs of files that import one another, each as "one other". */
export function circles(imports: readonly Import[]): string[] {
  const edges = new Set(imports.filter(({ isFile }) => isFile).map(({ file, to }) => `${file} ${to}`))
  const isBack = (edge: string) => {
    const [one = '', other = ''] = edge.split(' ')
    return one < other && edges.has(`${other} ${one}`)
  }
  return [...edges].filter(isBack).sort()
}
