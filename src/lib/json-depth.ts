/**
 * Returns the most brackets that are open at once, outside of strings: JSON.parse takes seconds for millions of them.
 */
export function jsonDepth(json: string): number {
  let depth = 0
  let deepest = 0
  let isText = false
  for (let i = 0; i < json.length; i++) {
    const sign = json[i]
    if (sign === '"') isText = !isText
    else if (isText) i += sign === '\\' ? 1 : 0
    else if (sign === '[' || sign === '{') deepest = Math.max(deepest, ++depth)
    else if (sign === ']' || sign === '}') depth--
  }
  return deepest
}
