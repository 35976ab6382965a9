/** Of what was made of a file of the commit: lines are of what a program has printed. */
export function renderedName(path: string): string {
  return `${path} (rendered)`
}

/** From 1: of `offset`, counted from `start`. */
export function lineAt(bytes: Uint8Array, start: number, offset: number): number {
  let line = 1
  for (let at = start; at < offset; at++) if (bytes[at] === 10) line++
  return line
}
