import { Code } from './errors.ts'

const names = new Map<number, string>(Object.entries(Code).map(([name, code]) => [code, goName(name)]))

/** A gRPC status as grpc-go spells it: `OK`, `Canceled`, `DeadlineExceeded`; undefined for a number that gRPC lacks. */
export function goCodeName(code: number): string | undefined {
  return names.get(code)
}

function goName(name: string): string {
  if (name === 'OK') return name
  if (name === 'CANCELLED') return 'Canceled' // Go has one l
  return name.replaceAll(/([A-Z])([A-Z]*)_?/g, (_, first: string, rest: string) => first + rest.toLowerCase())
}
